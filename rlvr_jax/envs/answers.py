"""Whether two final answers are the same: exact rules, then questions of algebra."""

import re
from collections.abc import Callable

from rlvr_jax.envs.grouping import SET, UNION, Group, group
from rlvr_jax.envs.numbers import quantity

Equal = Callable[[str, str], bool]

_MAX_DEPTH = 6
_TEXT = re.compile(r"\\(?:text(?:rm|bf|it)?|mbox|mathrm|mathbf|rm)\s*\{([^{}]*)\}")
_REPLACEMENTS = (
    (re.compile(r"\\(?:left|right|displaystyle|limits)(?![A-Za-z])"), ""),
    # "\\ " ends a row of a matrix.
    (re.compile(r"(?<!\\)(?:\\[!()\[\]]|\$)"), ""),
    (re.compile(r"(?<!\\)\\(?:[,;: ]|q?quad(?![A-Za-z]))|~|\s+"), " "),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*"), r"\\frac{\1}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\d)"), r"\1{\2}"),
    (re.compile(r"\\sqrt\s*(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"−"), "-"),
    (re.compile(r"π"), r"\\pi "),
    (re.compile(r"∞|\\infinity|\binf(?:ty|inity)?\b(?<!\\infty)"), r"\\infty "),
    (re.compile(r"∪"), r"\\cup "),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°"), r"^\\circ "),
)
_ASSIGNED = re.compile(
    r"([A-Za-z](?:_(?:\w|\{\w+\}))?|[A-Za-z]\([A-Za-z]\)|\\[a-z]+)\s*(?:=|\\in(?![a-z]))\s*"
)
_CHOICE = re.compile(r"\(?([A-Z])[).:]*$|\(([a-z])\)$")
_CHOICE_AND_MORE = re.compile(r"\(?([A-Z])[).:]\s*\S")
_BASED = re.compile(r"([0-9A-Z.]+)\s*_\s*(?:\{\s*(\d+)\s*\}|(\d+))$")
_WORDS = re.compile(r"[A-Za-z][A-Za-z .,'-]{2,}$")
_RELATION = re.compile(r"[<>]|\\(?:leq?|geq?|lt|gt|neq?)(?![a-z])")


class Undecided(Exception):
    """The exact rules cannot say whether two answers are equal."""


def undecided(gold: str, answer: str) -> bool:
    """An `Equal` that knows no algebra.

    Raises:
        Undecided: always.
    """
    raise Undecided


def same(gold: str, answer: str, equal: Equal, *, verbatim: bool = True) -> bool:
    """Whether an answer is the gold one.

    Args:
        gold, answer: LaTeX or plain text.
        equal: decides two expressions that the exact rules cannot.
        verbatim: equal texts are equal answers; False asks what the gold means.
    """
    return _same(clean(gold), clean(answer), equal, verbatim, 0)


def clean(text: str) -> str:
    """The text with one spelling for things that are written in several."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = text.strip().rstrip(".").strip()
    while text[:1] == "{" and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _same(gold, answer, equal, verbatim, depth):
    if verbatim and gold and _plain(gold) == _plain(answer):
        return True
    if depth > _MAX_DEPTH or not gold or not answer:
        return False
    gold, answer = _without_names(gold, answer)
    if letter := _choice(gold):
        return letter == (_choice(answer) or _choice(answer, more=True))
    if (wanted := quantity(gold)) is not None:
        found = quantity(answer)
        if found is not None:
            return found.matches(wanted)
        return _asked(_unitless(gold), answer, equal)
    if based := _BASED.match(_unwrapped(gold)):
        found = _BASED.match(_unwrapped(answer))
        return bool(found) and _digits(based) == _digits(found)
    wanted, found = group(gold), group(answer)
    if _is_word(gold) and not (wanted and not any(map(_is_word, wanted.items))):
        return _letters(gold) == _letters(answer)
    if _RELATION.search(gold) or _RELATION.search(answer):
        return equal(_unitless(gold), _unitless(answer))
    if wanted is None and found is None:
        return _asked(_unitless(gold), answer, equal)
    if wanted is None or found is None:
        return False
    return _same_groups(wanted, found, equal, verbatim, depth + 1)


def _asked(gold, answer, equal):
    """Algebra, for an answer that may be an expression."""
    if group(answer) is not None or _is_word(answer):
        return False
    return equal(gold, _unitless(answer))


def _same_groups(gold: Group, answer: Group, equal, verbatim, depth):
    if gold.kind != answer.kind or len(gold.items) != len(answer.items):
        return False
    if gold.kind not in (SET, UNION):
        # The exact items first: one that differs saves the questions.
        pairs = list(zip(gold.items, answer.items, strict=True))
        known = [_known(*pair, verbatim, depth) for pair in pairs]
        return False not in known and all(
            sure or _same(*pair, equal, verbatim, depth)
            for pair, sure in zip(pairs, known, strict=True)
        )
    left, missing = list(answer.items), []
    for item in gold.items:
        for other in left:
            if _known(item, other, verbatim, depth):
                left.remove(other)
                break
        else:
            missing.append(item)
    for item in missing:
        for other in left:
            if _same(item, other, equal, verbatim, depth):
                left.remove(other)
                break
        else:
            return False
    return True


def _known(gold, answer, verbatim, depth):
    """What the exact rules say; None if they cannot tell."""
    try:
        return _same(gold, answer, undecided, verbatim, depth)
    except Undecided:
        return None


def _without_names(gold, answer):
    """Drops "x =" from both, or from one when the other is no equation."""
    wanted, found = _ASSIGNED.match(gold), _ASSIGNED.match(answer)
    if wanted and found and wanted.group(1) == found.group(1):
        return gold[wanted.end() :], answer[found.end() :]
    if found and not wanted and "=" not in gold:
        return gold, answer[found.end() :]
    if wanted and not found and "=" not in answer:
        return gold[wanted.end() :], answer
    return gold, answer


def _choice(text, *, more=False):
    match = (_CHOICE_AND_MORE if more else _CHOICE).match(_unwrapped(text).strip())
    letter = match and (match.group(1) or match.group(match.lastindex))
    return letter.upper() if letter else ""


def _is_word(text):
    inner = _unwrapped(text)
    if inner != text and not re.search(r"[\\^_=+]", inner):
        return bool(re.search(r"[A-Za-z]{2}|[A-Za-z]\.", inner))
    return bool(_WORDS.match(text))


def _letters(text):
    """Letters, digits and the sign of a number."""
    return re.sub(r"-(?![\d(])|[^0-9a-z-]", "", _unwrapped(text).casefold())


def _unwrapped(text):
    return _TEXT.sub(r"\1", text)


def _unitless(text):
    """The text without a unit at its end, if what precedes is mathematics."""
    match = re.search(rf"(?:{_TEXT.pattern})\s*(?:\^\s*\{{?[23]\}}?)?$", text)
    if match and match.start():
        text = text[: match.start()].strip()
    return text.removesuffix("^\\circ").strip()


def _digits(match):
    digits, *bases = match.groups()
    return digits, next(base for base in bases if base)


def _plain(text):
    # A space between two digits makes two numbers.
    return re.sub(r"(?<!\d)\s|\s(?!\d)", "", _unwrapped(text))


def _closing(text):
    """Index of the brace that closes the one at the start, or -1."""
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text):
        if len(match.group()) == 2:
            continue
        depth += 1 if match.group() == "{" else -1
        if not depth:
            return match.start()
    return -1
