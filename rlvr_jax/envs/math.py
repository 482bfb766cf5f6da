"""Verifier of exact numeric answers: integers, fractions, decimals, percentages."""

import fractions
import re

from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.envs.verifier import Verifier
from rlvr_jax.tasks.records import Task

WRONG_FEEDBACK = (
    "Your answer is wrong. Reflect on your previous answer and try something else."
)
NO_ANSWER_FEEDBACK = "No final answer was found. Put it in \\boxed{}."
_MAX_DIGITS = 400
_MAX_EXPONENT = 400

_OPEN_TAG, _CLOSE_TAG = "<answer>", "</answer>"
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BRACE = re.compile(r"\\[{}\\]|[{}]")  # an escaped one is text
_HASHES = "####"
_DECIMAL = r"(?:\d+(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(rf"({_DECIMAL})(?:[eE]([+-]?\d{{1,9}}))?$", re.ASCII)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}$")
# Dropped anywhere: none of them changes a number.
_NOISE = re.compile(r"\\[,;:! ]|\\left|\\right|\\?\$|\\mathrm|\\text|~|\s")


class MathVerifier(Verifier):
    r"""Compares the final number of a response with the task's answer, exactly.

    The answer of a response stands in the last complete \boxed{} (or \fbox{}), in the
    last <answer> tag, or after the last "####": of those present, the one that ends
    last. Numbers are integers, fractions (3/4, \frac{3}{4}), decimals and powers of ten
    (1e3), with thousands separators, $, a sign, a final period, or a percent sign, and
    are compared as fractions: 1234.0 is 1,234 and 0.333 is not 1/3. A percentage equals
    its number of hundredths (50% is 1/2) and, where only one side has the sign, also
    the bare number (50% is 50).

    Args:
        workers, cache_size: see Verifier.
        feedback: what a wrong answer is told.
        max_characters: a longer response has status output_limit and reward 0.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        cache_size: int = 65536,
        feedback: str = WRONG_FEEDBACK,
        max_characters: int = 1 << 20,
    ) -> None:
        super().__init__(workers=workers, cache_size=cache_size)
        self.feedback = feedback
        self.max_characters = max_characters

    def grade(self, task: Task, response: str) -> Verdict:
        gold = number(gold_answer(task.answer))
        if gold is None:
            return unknown("abstained", "The answer of this task is not a number.")
        if len(response) > self.max_characters:
            return Verdict(0.0, False, "Your answer is too long.", "output_limit", 0, 1)
        text = final_answer(response)
        if text is None:
            return Verdict(0.0, False, NO_ANSWER_FEEDBACK, "no_answer", 0, 1)
        answer = number(text)
        if answer is not None and _equal(answer, gold):
            return Verdict(1.0, True, "Your answer is right.", "passed", 1, 1, True)
        return Verdict(0.0, False, self.feedback, "failed", 0, 1)


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


def number(text: str) -> tuple[fractions.Fraction, bool] | None:
    """A number and whether it had a percent sign, or None if it is not a number.

    Args:
        text: the whole number and nothing else, at most 400 digits, exponents within
            +-400: larger ones are not numbers here, so that none is slow.
    """
    if len(text) > 4 * _MAX_DIGITS:
        return None
    text = _NOISE.sub("", text).replace("\\%", "%").replace("−", "-")
    text = text.replace("{,}", ",")
    while len(text) > 1 and text[0] == "{" and text[-1] == "}":
        text = text[1:-1]
    percent = text.rstrip(".").endswith("%")
    text = text.rstrip(".").rstrip("%") if percent else text
    sign = 1
    if text[:1] in ("-", "+"):
        sign, text = (-1 if text[0] == "-" else 1), text[1:]
    value = _fraction(text)
    if value is None:
        return None
    return sign * value / (100 if percent else 1), percent


def _fraction(text):
    match = _LATEX_FRACTION.match(text)
    parts = match.groups() if match else text.split("/")
    if len(parts) == 2:
        upper, lower = _signed(parts[0]), _signed(parts[1].rstrip("."))
        return upper / lower if upper is not None and lower else None
    return _decimal(text)


def _signed(text):
    negative = text.startswith("-")
    value = _decimal(text[1:] if negative else text)
    return -value if negative and value is not None else value


def _decimal(text):
    match = _NUMBER.match(text)
    if not match or len(match.group(1)) > _MAX_DIGITS:
        return None
    exponent = int(match.group(2) or 0)
    if abs(exponent) > _MAX_EXPONENT:
        return None
    digits = match.group(1).replace(",", "").rstrip(".")
    return fractions.Fraction(digits) * fractions.Fraction(10) ** exponent


def _equal(answer, gold):
    (value, percent), (wanted, wanted_percent) = answer, gold
    if value == wanted:
        return True
    if percent == wanted_percent:
        return False
    return (100 * value == wanted) if percent else (value == 100 * wanted)
