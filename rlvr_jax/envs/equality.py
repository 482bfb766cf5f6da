r"""Equality of two LaTeX expressions by math-verify; runs in a worker only.

Differences to `math_verify.parse` and `verify`: the whole text must be an expression
(it takes the last thing that looks like one: 4 of "4\sqrt(2)"); a decimal is the exact
number that it writes (it rounds to 6 places); equations are equal when one is a
multiple of the other (it compares lists of solutions, and none equals none).
"""

import re

import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy
from math_verify import verify

_NORMALISATION = NormalizationConfig(
    basic_latex=True, malformed_operators=True, nits=True, boxed="none"
)
_EQUATION = re.compile(r"(?<![\\<>!=:])=(?!=)")
# "3 4" would be read as 7, and a base in a subscript would be dropped.
_UNSAFE = re.compile(r"\d\s+\d|\d\s*_")
_COMPLEX = re.compile(r"(?<![A-Za-z])i(?![A-Za-z])|\\i(?:math)?\b")
_DIGITS = 15


def equal(gold: str, answer: str) -> bool:
    """Whether two LaTeX texts are the same thing; False for what cannot be read.

    Args:
        gold: the reference, which decides between readings.
        answer: of a response; may be hostile: the caller limits time and memory.

    Raises:
        MemoryError: it needs more than the process may have.
    """
    try:
        sides = [_EQUATION.split(text) for text in (gold, answer)]
        is_complex = any(_COMPLEX.search(text) for text in (gold, answer))
        if [len(side) for side in sides] == [2, 2]:
            return _equal_equations(*sides, is_complex)
        if any(len(side) > 1 for side in sides):
            return False
        wanted, found = (_parsed(text, is_complex) for text in (gold, answer))
        same = verify(
            wanted,
            found,
            allow_set_relation_comp=True,
            timeout_seconds=None,
        )
        return bool(same) and _close(wanted, found)
    except MemoryError:
        raise
    except Exception:
        # The parser and sympy raise many kinds; all mean: not shown to be equal.
        return False


def _parsed(text, is_complex):
    if _UNSAFE.search(text):
        raise ValueError(text)
    expression = latex2sympy(
        text,
        is_real=not is_complex,
        convert_degrees=False,
        normalization_config=_NORMALISATION,
    )
    floats = {f: sympy.Rational(str(f)) for f in expression.atoms(sympy.Float)}
    return expression.xreplace(floats) if floats else expression


def _equal_equations(gold, answer, is_complex):
    wanted, found = (
        _parsed(left, is_complex) - _parsed(right, is_complex)
        for left, right in (gold, answer)
    )
    if not wanted.free_symbols or found == 0:
        return False  # true, or false, whatever the variables are
    ratio = sympy.simplify(wanted / found)
    return bool(ratio.is_number and ratio.is_finite and ratio != 0)


def _close(wanted, found):
    """False for numbers whose difference is small beside 1, but not beside them."""
    numbers = (wanted, found)
    if not all(isinstance(n, sympy.Expr) and n.is_number for n in numbers):
        return True
    sizes = [abs(number.evalf(_DIGITS)) for number in numbers]
    if not all(size.is_comparable and size.is_finite for size in sizes):
        return True
    difference = abs((wanted - found).evalf(_DIGITS, chop=False))
    return bool(difference <= max(sizes) * sympy.Float(10) ** (2 - _DIGITS))
