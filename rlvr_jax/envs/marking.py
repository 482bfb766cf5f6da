"""Where a text marks its final answer: a box, an answer tag, or "####"."""

import re

_OPEN_TAG, _CLOSE_TAG = "<answer>", "</answer>"
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BRACE = re.compile(r"\\[{}\\]|[{}]")  # an escaped one is text
_HASHES = "####"


def gold_answer(answer: str) -> str:
    """The number in a task's answer: after "####", in a box or tag, or all of it."""
    found = final_answer(answer)
    return answer if found is None else found


def final_answer(text: str) -> str | None:
    """What a text marks as its final answer, or None.

    Args:
        text: a response or a worked solution.

    Returns:
        The content of whichever comes last of: a balanced box, an answer tag, a line
        after "####". A box that never closes is none.
    """
    marks = [span for span in (_last_tag(text), _last_line(text)) if span]
    if box := _last_box(text):
        marks.append(box)
    if not marks:
        return None
    start, end = max(marks, key=lambda span: span[1])
    content = text[start:end]
    # "<answer>\boxed{3}</answer>" and "#### \boxed{3}" mark the same number twice.
    inner = _last_box(content)
    return content[slice(*inner)] if inner else content


def _last_tag(text):
    """Span of the last complete answer tag's content, in linear time."""
    lower = text.lower()
    end = lower.rfind(_CLOSE_TAG)
    start = lower.rfind(_OPEN_TAG, 0, max(end, 0))
    return (start + len(_OPEN_TAG), end) if start >= 0 and end >= 0 else None


def _last_line(text):
    """Span of the line after the last "####"."""
    start = text.rfind(_HASHES)
    if start < 0:
        return None
    end = text.find("\n", start)
    return start + len(_HASHES), end if end >= 0 else len(text)


def _last_box(text):
    """Span of the content of the balanced box that closes last, in one pass."""
    starts = {match.end() for match in _BOX.finditer(text)}
    if not starts:
        return None
    last, open_braces = None, []
    for brace in _BRACE.finditer(text, min(starts) - 1):
        if brace.group() == "{":
            open_braces.append(brace.end())
        elif brace.group() == "}" and open_braces:
            start = open_braces.pop()
            if start in starts:
                last = (start, brace.start())
    return last
