"""When what a program wrote is what was expected."""

import re
from decimal import Decimal

TOLERANCE = 1e-6
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d{1,3})?")
# The text that a number without a fraction has when it is printed as a float.
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0+")


def same_output(actual: str, expected: str) -> bool:
    """Whether a program's output counts as the expected one.

    Line ends (\\r\\n), white space at the ends of lines and empty lines at both ends
    of the output say nothing. Then the two are equal, or have as many lines, equally
    many words in each, and words that agree: as texts, case included; or, where the
    expected word is a decimal number (it has a point or an exponent), as numbers, to
    an absolute or relative 1e-6; or, where it is an integer, written as `3.0` for `3`.
    Orders and spellings of other right answers are not known here.

    >>> same_output("0.3333333\\n", "0.333333333")
    True
    >>> same_output("3 4", "3\\n4")
    False

    Args:
        actual: what the program wrote.
        expected: what was expected.
    """
    lines, wanted = _lines(actual), _lines(expected)
    if lines == wanted:
        return True
    if len(lines) != len(wanted):
        return False
    for line, want in zip(lines, wanted, strict=True):
        words, wanted_words = line.split(), want.split()
        if len(words) != len(wanted_words):
            return False
        pairs = zip(words, wanted_words, strict=True)
        if not all(_same_word(word, other) for word, other in pairs):
            return False
    return True


def _lines(text):
    return [line.rstrip() for line in text.strip().split("\n")]


def _same_word(word, wanted):
    if word == wanted:
        return True
    # Longer numbers than anybody prints would make the conversion slow.
    if len(word) > 400 or len(wanted) > 400:
        return False
    if _INTEGER.fullmatch(wanted):
        whole = _WHOLE.fullmatch(word)
        return whole is not None and whole.group(1) == wanted
    number = _DECIMAL.fullmatch(word) or _INTEGER.fullmatch(word)
    if not (number and _DECIMAL.fullmatch(wanted)):
        return False
    value, target = Decimal(word), Decimal(wanted)
    room = Decimal(TOLERANCE) * max(Decimal(1), abs(target))
    return abs(value - target) <= room
