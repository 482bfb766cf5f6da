"""The hidden functions of program synthesis tasks: families as data.

A family is an expression in x with named integer constants. All families are expanded
once; of the functions that behave alike on `DOMAIN` only the first one stays, so each
behaviour has one spelling and one level.
"""

import dataclasses
import functools
import hashlib
import itertools

DOMAIN = range(-20, 21)
# Where the arguments that the prompt shows come from.
CENTRE = range(-9, 10)


_NONZERO = tuple(c for c in range(-9, 10) if c)
_SMALL = tuple(c for c in range(-5, 6) if c)
_FACTORS = (2, 3, 4, 5)
_SCALES = (-3, -2, 2, 3, 4, 5)
_DIVISORS = tuple(range(2, 10))
_ANY = tuple(range(-9, 10))


@dataclasses.dataclass(frozen=True)
class Family:
    """Functions of one shape.

    Args:
        name: name used in `Task.metadata`.
        level: difficulty, 1 (one operation) to 3 (compositions, three constants).
        template: `str.format` template of a Python expression in x.
        constants: name of a constant (or sign) in the template -> its values.
    """

    name: str
    level: int
    template: str
    constants: dict[str, tuple]

    def expressions(self) -> list[str]:
        """Returns the expression of every combination of constants, in order."""
        return [
            self.template.format(**dict(zip(self.constants, values, strict=True)))
            for values in itertools.product(*self.constants.values())
        ]


@dataclasses.dataclass(frozen=True)
class Function:
    """One hidden function.

    Args:
        family: name of its family.
        level: difficulty of the family, 1 to 3.
        expression: its first spelling in the table, a Python expression in x.
        outputs: its values on `DOMAIN`, in order.
        digest: hexadecimal hash of the outputs, equal for equal behaviours.
    """

    family: str
    level: int
    expression: str
    outputs: tuple[int, ...]
    digest: str

    def value(self, x: int) -> int:
        """Returns the function's value at x, an element of `DOMAIN`."""
        return self.outputs[x - DOMAIN.start]


# Order matters: a behaviour belongs to the first family that has it.
FAMILIES = (
    Family("shift", 1, "x{b:+d}", {"b": _NONZERO}),
    Family("scale", 1, "{a}*x", {"a": (2, 3, 4, 5, 6, 7, 8, 9, -2, -3)}),
    Family("square", 1, "x*x", {}),
    Family("complement", 1, "{b}-x", {"b": tuple(range(10))}),
    Family("maximum", 1, "max(x,{c})", {"c": _ANY}),
    Family("minimum", 1, "min(x,{c})", {"c": _ANY}),
    Family("absolute", 1, "abs(x)", {}),
    Family("distance", 1, "abs(x{c:+d})", {"c": _NONZERO}),
    Family("floor", 1, "x//{n}", {"n": _FACTORS}),
    Family("remainder", 1, "x%{n}", {"n": _DIVISORS}),
    Family("linear", 2, "{a}*x{b:+d}", {"a": (*range(2, 10), -2, -3), "b": _NONZERO}),
    Family("square_shift", 2, "x*x{b:+d}", {"b": _NONZERO}),
    Family("square_scale", 2, "{a}*x*x", {"a": (2, 3, -1)}),
    Family("square_linear", 2, "x*x{a:+d}*x", {"a": _NONZERO}),
    Family("remainder_shift", 2, "x%{n}{b:+d}", {"n": _DIVISORS, "b": _NONZERO}),
    Family("floor_shift", 2, "x//{n}{b:+d}", {"n": _FACTORS, "b": _NONZERO}),
    Family("distance_shift", 2, "abs(x{c:+d}){b:+d}", {"c": _NONZERO, "b": _NONZERO}),
    Family("absolute_shift", 2, "abs(x){b:+d}", {"b": _NONZERO}),
    Family("maximum_scale", 2, "{a}*max(x,{c})", {"a": _SCALES, "c": _SMALL}),
    Family("minimum_scale", 2, "{a}*min(x,{c})", {"a": _SCALES, "c": _SMALL}),
    Family("distance_scale", 2, "{a}*abs(x{c:+d})", {"a": _SCALES, "c": _SMALL}),
    Family("remainder_scale", 2, "{a}*(x%{n})", {"a": _SCALES, "n": _DIVISORS}),
    Family("absolute_remainder", 2, "abs(x)%{n}", {"n": _DIVISORS}),
    Family("square_remainder", 2, "x*x%{n}", {"n": _DIVISORS}),
    Family("clamp", 2, "min(max(x,{lo}),{hi})", {"lo": _SMALL, "hi": _NONZERO}),
    Family("maximum_shift", 2, "max(x,{c}){b:+d}", {"c": _SMALL, "b": _NONZERO}),
    Family("minimum_shift", 2, "min(x,{c}){b:+d}", {"c": _SMALL, "b": _NONZERO}),
    Family(
        "quadratic",
        3,
        "x*x{a:+d}*x{b:+d}",
        {"a": _NONZERO, "b": _NONZERO},
    ),
    Family(
        "maximum_linear",
        3,
        "{a}*max(x,{c}){b:+d}",
        {"a": _SCALES, "c": _SMALL, "b": _NONZERO},
    ),
    Family(
        "minimum_linear",
        3,
        "{a}*min(x,{c}){b:+d}",
        {"a": _SCALES, "c": _SMALL, "b": _NONZERO},
    ),
    Family(
        "distance_linear",
        3,
        "{a}*abs(x{c:+d}){b:+d}",
        {"a": _SCALES, "c": _SMALL, "b": _NONZERO},
    ),
    Family(
        "remainder_linear",
        3,
        "{a}*(x%{n}){b:+d}",
        {"a": _SCALES, "n": _DIVISORS, "b": _NONZERO},
    ),
    Family(
        "linear_floor",
        3,
        "({a}*x{b:+d})//{n}",
        {"a": _FACTORS, "b": _NONZERO, "n": _FACTORS},
    ),
    Family(
        "linear_remainder",
        3,
        "({a}*x{b:+d})%{n}",
        {"a": _FACTORS, "b": _NONZERO, "n": _DIVISORS},
    ),
    Family(
        "linear_distance",
        3,
        "abs({a}*x{b:+d})",
        {"a": _FACTORS, "b": _NONZERO},
    ),
    Family(
        "distance_remainder",
        3,
        "abs(x{c:+d})%{n}",
        {"c": _NONZERO, "n": _DIVISORS},
    ),
    Family(
        "linear_maximum",
        3,
        "max({a}*x{b:+d},{c})",
        {"a": _FACTORS, "b": _NONZERO, "c": _SMALL},
    ),
    Family(
        "linear_minimum",
        3,
        "min({a}*x{b:+d},{c})",
        {"a": _FACTORS, "b": _NONZERO, "c": _SMALL},
    ),
    Family(
        "distance_minimum",
        3,
        "min(abs(x{c:+d}),{b})",
        {"c": _NONZERO, "b": tuple(range(2, 10))},
    ),
    Family(
        "distance_maximum",
        3,
        "max(abs(x{c:+d}),{b})",
        {"c": _NONZERO, "b": tuple(range(1, 7))},
    ),
    Family(
        "distance_twice",
        3,
        "abs(abs(x{c:+d}){b:+d})",
        {"c": _NONZERO, "b": tuple(range(-9, 0))},
    ),
    Family(
        "floor_remainder",
        3,
        "x//{n}{sign}x%{m}",
        {"n": _FACTORS, "sign": ("+", "-"), "m": _DIVISORS},
    ),
    Family(
        "plus_remainder",
        3,
        "x{sign}x%{n}{b:+d}",
        {"sign": ("+", "-"), "n": _DIVISORS, "b": _SMALL},
    ),
    Family(
        "square_linear_scale",
        3,
        "{a}*x*x{b:+d}",
        {"a": (2, 3, -1), "b": _NONZERO},
    ),
)


@functools.cache
def functions() -> tuple[Function, ...]:
    """Returns every hidden function, one per behaviour, simple families first.

    Functions with one value on three quarters of `CENTRE` or more are left out: four
    examples would seldom show what they are.
    """
    known: dict[tuple[int, ...], Function] = {}
    for family in sorted(FAMILIES, key=lambda family: family.level):
        for expression in family.expressions():
            function = describe(expression, family=family.name, level=family.level)
            if function.outputs in known or _nearly_constant(function.outputs):
                continue
            known[function.outputs] = function
    return tuple(known.values())


def describe(expression: str, *, family: str = "", level: int = 0) -> Function:
    """What an expression of this package's own making does on `DOMAIN`.

    It is evaluated in this process: never pass what a model wrote.

    Raises:
        ArithmeticError: the expression fails somewhere on `DOMAIN`, as `x//0` does.
    """
    function = eval(f"lambda x: {expression}")
    outputs = tuple(map(function, DOMAIN))
    digest = hashlib.sha256(repr(outputs).encode()).hexdigest()
    return Function(family, level, expression, outputs, digest)


def _nearly_constant(outputs: tuple[int, ...]) -> bool:
    values = [outputs[x - DOMAIN.start] for x in CENTRE]
    return 4 * max(map(values.count, values)) >= 3 * len(values)
