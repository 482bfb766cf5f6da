"""Whether two final answers are the same: exact rules, then questions of algebra."""

import re
from collections.abc import Callable

from rlvr_jax.envs.grouping import SET, UNION, group
from rlvr_jax.envs.numbers import quantity

Equal = Callable[[str, str], bool]

MAX_CHARACTERS = 1000
MAX_BRACKETS = 12
_MAX_DEPTH = 6
_MAX_PAIRS = 1000
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
        gold, answer: LaTeX or plain text. What is longer than MAX_CHARACTERS, or has
            more than MAX_BRACKETS open at once, equals nothing.
        equal: decides two expressions that the exact rules cannot.
        verbatim: equal texts are equal answers; False asks what the gold means.
    """
    if any(_too_large(text) for text in (gold, answer)):
        return False
    return _Comparison(equal, verbatim).same(clean(gold), clean(answer), 0)


def _too_large(text):
    depth = deepest = 0
    for bracket in re.findall(r"[{}()\[\]]", text[: MAX_CHARACTERS + 1]):
        depth += 1 if bracket in "{([" else -1
        deepest = max(deepest, depth)
    return len(text) > MAX_CHARACTERS or deepest > MAX_BRACKETS


def clean(text: str) -> str:
    """The text with one spelling for things that are written in several."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = text.strip().rstrip(".").strip()
    while text[:1] == "{" and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


class _Comparison:
    """One comparison, with a bound on its work: lists of lists have many pairs."""

    def __init__(self, equal, verbatim):
        self.equal, self.verbatim, self.left = equal, verbatim, _MAX_PAIRS

    def same(self, gold, answer, depth):
        self.left -= 1
        if self.left < 0:
            return False
        if self.verbatim and gold and _plain(gold) == _plain(answer):
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
            return self._asked(gold, answer)
        if based := _BASED.match(_unwrapped(gold)):
            found = _BASED.match(_unwrapped(answer))
            return bool(found) and _digits(based) == _digits(found)
        wanted, found = group(gold), group(answer)
        if _is_word(gold) and not (wanted and not any(map(_is_word, wanted.items))):
            return _letters(gold) == _letters(answer)
        if _RELATION.search(gold) or _RELATION.search(answer):
            return self.equal(_unitless(gold), _unitless(answer))
        if wanted is None and found is None:
            return self._asked(gold, answer)
        if wanted is None or found is None:
            return False
        if wanted.kind != found.kind or len(wanted.items) != len(found.items):
            return False
        compare = self._unordered if wanted.kind in (SET, UNION) else self._ordered
        return compare(wanted.items, found.items, depth + 1)

    def _asked(self, gold, answer):
        """Algebra, for an answer that may be an expression."""
        if group(answer) is not None or _is_word(answer):
            return False
        return self.equal(_unitless(gold), _unitless(answer))

    def _ordered(self, golds, answers, depth):
        # The exact items first: one that differs saves the questions.
        pairs = list(zip(golds, answers, strict=True))
        known = [self._known(*pair, depth) for pair in pairs]
        return False not in known and all(
            sure or self.same(*pair, depth)
            for pair, sure in zip(pairs, known, strict=True)
        )

    def _unordered(self, golds, answers, depth):
        left = list(answers)
        missing = [g for g in golds if not self._taken(g, left, depth, self._known)]
        return all(self._taken(g, left, depth, self.same) for g in missing)

    def _taken(self, gold, left, depth, is_same):
        """Takes the first answer that is the gold one out of those left."""
        for answer in left:
            if is_same(gold, answer, depth):
                left.remove(answer)
                return True
        return False

    def _known(self, gold, answer, depth):
        """What the exact rules say; None if they cannot tell."""
        asks, self.equal = self.equal, undecided
        try:
            return self.same(gold, answer, depth)
        except Undecided:
            return None
        finally:
            self.equal = asks


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
