"""The exact rules: what is the same answer, and what is not, without algebra."""

import contextlib
import time

import pytest

from rlvr_jax.envs.answers import Undecided, same, undecided
from rlvr_jax.envs.numbers import quantity

SAME = [
    # (gold, answer), one idea a line
    (r"\frac{1}{2}", r"\dfrac12"),
    (r"\frac12", "0.5"),
    (r"\frac43", r"\frac 4{3}"),
    (r"1\frac{3}{4}", "7/4"),
    ("1.75", "1 3/4"),
    (r"-2\frac 1 2", "-2.5"),
    ("10,000", r"10\,000"),
    (r"1,\!234", "1234"),
    ("10000", "10 000"),
    (r"3 \times 10^{4}", "30000"),
    ("5e-3", r"5\cdot 10^{-3}"),
    (r"3.25\text{ dollars}", r"\$3.25"),
    (r"15\mbox{ cm}^2", r"15 \text{ square centimeters}"),
    (r"45\text{ cm}^2", "45"),
    ("45", r"45\ \mathrm{cm}^{2}"),
    ("18", "18 apples"),
    (r"120^\circ", "120"),
    ("120", "120°"),
    (r"120^{\circ}", r"120 \text{ degrees}"),
    ("7 inches", "7 in."),
    (r"50\%", "50"),
    ("x = 5", "5"),
    ("5", "x=5"),
    ("x=-10", "x = -10"),
    (r"x \in [1,2)", "[1, 2)"),
    (r"\text{(E)}", "E"),
    ("B", "(b)"),
    ("B", r"\text{B. it is larger}"),
    ("C", r"\mathbf{C}"),
    (r"\text{Navin}", "navin"),
    ("even", r"\text{Even}."),
    (r"\text{4:30 p.m.}", "4:30 PM"),
    ("7, -2, \\text{ and } -5", "-5, 7, -2"),
    (r"12\text{ and }13", "13, 12"),
    (r"\{1, 2, 3\}", r"\left\{3, 2, 1\right\}"),
    (r"\{1, 2\}", "1 and 2"),
    ("(1, 2)", r"\left( 1, \frac{4}{2} \right)"),
    ("[-13,3]", "[-13.0, 3]"),
    (r"(-\infty, 0] \cup [4, \infty)", r"[4,\infty)\cup(-∞,0]"),
    (
        r"\begin{pmatrix} 1 & 2 \\ 0.5 & 4 \end{pmatrix}",
        r"\begin{bmatrix}1&2\\\frac12&4\end{bmatrix}",
    ),
    ("1:2", "1 : 2"),
    ("4343_6", "4343_{6}"),
    (r"2 + \sqrt3", r"2+\sqrt{3}"),
    (r"\pm 3", r"3, -3"),
    (r"\{\pm 2, 5\}", "5, -2, 2"),
]
DIFFERENT = [
    ("1/3", "0.333"),
    ("3", "-3"),
    ("1234", "1, 234"),
    (r"15\text{ cm}", r"15\text{ m}"),
    (r"15\text{ cm}^2", r"15\text{ cm}^3"),
    (r"5.4\text{ cents}", r"\$5.4"),
    (r"9\text{ a.m.}", r"9\text{ p.m.}"),
    ("5", "50"),
    ("B", "C"),
    ("B", "b"),
    ("B", "BC"),
    (r"\text{even}", r"\text{odd}"),
    ("stop", "post"),
    (r"\text{June 20}", "June 2"),
    (r"\text{May -5}", "May 5"),
    ("x = 5", "x = 6"),
    ("(1, 2)", "(2, 1)"),
    ("(1, 2)", r"\{1, 2\}"),
    ("(1, 2)", "[1, 2]"),
    ("[1, 2)", "(1, 2)"),
    ("(1, 2)", "(1, 2, 3)"),
    ("1, 2", "1, 2, 3"),
    ("1, 2, 2", "1, 1, 2"),
    (r"\{1, 2\}", r"\{1, 3\}"),
    (r"(0, 1) \cup (2, 3)", r"(0, 1) \cup (2, 4)"),
    (
        r"\begin{pmatrix} 0 & 0 \\ 0 & 1 \end{pmatrix}",
        r"\begin{pmatrix} 0 & 6 \\ 0 & 1 \end{pmatrix}",
    ),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
    (r"12\text{ and }13", r"-(12\text{ and }13)"),
    ("1:2", "1:3"),
    ("4343_6", "4343"),
    ("4343_6", "4343_7"),
    ("5", "5, 6"),
    ("5", ""),
]
OPEN = [
    ("12", "1 2"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("5xy", "5yx"),
    ("4", "2^2"),
    ("5", "5m"),
    (r"(\sqrt{8}, 1)", r"(2\sqrt2, 1)"),
    ("y = 2x + 1", "y = 1 + 2x"),
    ("x < 3", r"(-\infty, 3)"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_same(gold, answer):
    assert same(gold, answer, undecided)
    assert same(gold, gold, lambda left, right: left == right, verbatim=False)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold, answer):
    assert not same(gold, answer, undecided)


@pytest.mark.parametrize(("gold", "answer"), OPEN)
def test_what_needs_algebra(gold, answer):
    with pytest.raises(Undecided):
        same(gold, answer, undecided)


def test_an_exact_difference_saves_the_algebra():
    assert not same(r"(\sqrt{8}, 1)", r"(2\sqrt2, 2)", undecided)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("3 square feet", "foot^2"),
        (r"3\text{ ft}^2", "foot^2"),
        ("3 parsec", "?"),
        ("3", ""),
        (r"3^\circ", "degree"),
    ],
)
def test_units(text, unit):
    found = quantity(text)
    assert (found.value, found.unit) == (3, unit)


@pytest.mark.parametrize("text", ["x", "3x", "3 m n", "5xy", r"\sqrt{2}", "2 3 cm", ""])
def test_what_is_no_quantity(text):
    assert quantity(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "(" * 400 + "x" + ")" * 400,
        r"\{" * 300 + "1,2" + r"\}" * 300,
        r"\{" + ",".join([r"\{x,x,x,x,x,x,x,x\}"] * 31) + r"\}",
        r"\frac" * 199,
        "a " * 499,
        "\\" * 999,
        r"\text{" * 160 + "}" * 40,
        "x=" * 499,
    ],
)
def test_hostile_answers_are_cheap(text):
    start = time.process_time()
    for gold in ("4", r"\sqrt{8}", "(1, 2)", "Paris", text.replace("x", "y")):
        with contextlib.suppress(Undecided):
            same(gold, text, undecided)
    assert time.process_time() - start < 1.0
