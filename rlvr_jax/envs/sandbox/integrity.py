"""Defences of tests that run in one process with the solution.

They make forging hard, not impossible: a solution that walks frames or the garbage
collector's objects finds the harness and can say what it likes.
"""

import builtins
import functools
import operator
import os
import sys
import types

from rlvr_jax.envs.sandbox import codec

# Modules whose classes may be compared with plain data: their `==` is known.
_KNOWN = ("array", "collections", "datetime", "decimal", "fractions", "pathlib")
_KNOWN += ("numpy", "pandas")
_GUARDED = {
    "": (),
    "unittest": ("unittest",),
    "pytest": ("unittest", "pytest", "_pytest", "pluggy"),
}
# Replaced by pytest itself while it runs, for its `tmpdir`.
_REPLACED = ("_getini_unknown_type",)
_HARNESS = "rlvr_jax"


class Seal:
    """Remembers functions and methods of a test library and of `builtins`.

    Args:
        framework: "unittest", "pytest" (then of both) or "".
    """

    def __init__(self, framework: str) -> None:
        self.modules = [
            (name, module)
            for name, module in sys.modules.items()
            if name.partition(".")[0] in _GUARDED[framework]
        ]
        self.builtins = vars(builtins)
        self.names = list(self.builtins.items())
        # One pass in C, with functions that nobody can replace inside it.
        names, values = zip(*self.names, strict=True)
        self.unchanged = functools.partial(
            _all_true, map, operator.is_, names, values, self.builtins.get
        )
        self.members: list[tuple] = []
        self.functions: list[tuple] = []
        for _, module in self.modules:
            for owner in (module, *_classes(module)):
                self._remember(owner)

    def _remember(self, owner):
        for name, value in vars(owner).items():
            # Data may change (counters, caches); what can be called may not.
            called = callable(value) or isinstance(value, (staticmethod, property))
            if called and name not in _REPLACED:
                self.members.append((vars(owner), name, value))
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                kept = (function, function.__code__, function.__defaults__)
                self.functions.append(kept)

    def broken(self) -> str:
        """What was changed since, by name; "" if nothing was. Mends `builtins`."""
        found = ""
        # Until this is done no builtin can be used, so none is.
        if not self.unchanged():
            for name, value in self.names:
                if self.builtins.get(name) is not value:
                    self.builtins[name] = value
                    found = name
        for name, module in self.modules:
            if sys.modules.get(name) is not module:
                return name
        for members, name, value in self.members:
            if members.get(name) is not value:
                return name
        for function, code, defaults in self.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return function.__name__
        return found


def _all_true(map_, same, names, values, look_up, all_=all):
    return all_(map_(same, map_(look_up, names), values))


def _classes(module):
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]


def hide_harness() -> None:
    """Takes our modules out of the places where a program looks for modules."""
    for name in list(sys.modules):
        if name.partition(".")[0] == _HARNESS:
            del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")


class Mismatch(AssertionError):
    """Two values, given by their texts, that should be equal."""

    def __init__(self, actual: str, expected: str) -> None:
        super().__init__(f"{actual} is not {expected}")
        self.rlvr_detail = {"actual": actual, "expected": expected}


class Comparison:
    """Equality that an object of the solution cannot decide by itself.

    Made before the solution is loaded: it notes where libraries lie.
    """

    def __init__(self) -> None:
        here = os.getcwd()
        self.libraries = tuple(
            f"{path}/" for path in sys.path if path not in ("", here)
        )
        self.matchers: set[str] = set()

    def allow_matchers(self, sources: list[str]) -> None:
        """Matchers (`pytest.approx`, `mock.ANY`) that tests name equal many values."""
        text = "\n".join(sources)
        for module, word in (("_pytest", "approx"), ("unittest", "ANY")):
            if word in text:
                self.matchers.add(module)

    def settle(self, left: object, right: object) -> tuple[object, object]:
        """The two values, safe to compare.

        If the type of just one of them, or of something in it, brings its own `==`,
        the value is replaced by its data.

        Raises:
            AssertionError: it has no plain data.
        """
        own = self.brings_equality(left), self.brings_equality(right)
        if own[0] == own[1]:
            return left, right
        return (_data(left), right) if own[0] else (left, _data(right))

    def brings_equality(self, value: object, depth: int = 0) -> bool:
        """Whether code of the solution decides what equals the value."""
        kind = type(value)
        equal = kind.__eq__
        # What C code defines, and what classes inherit from object, is a wrapper.
        plain = isinstance(equal, types.WrapperDescriptorType)
        if not (plain or self._from_library(kind, equal)):
            return True
        if depth > codec.MAX_DEPTH or not isinstance(value, _CONTAINERS):
            return False
        if isinstance(value, dict):
            inside = [*dict.keys(value), *dict.values(value)]
        else:
            base = next(base for base in _CONTAINERS if isinstance(value, base))
            inside = base.__iter__(value)
        return any(self.brings_equality(item, depth + 1) for item in inside)

    def _from_library(self, kind, equal):
        root = str(kind.__module__).partition(".")[0]
        code = getattr(equal, "__code__", None)
        known = root in _KNOWN or root in self.matchers
        return known and (code is None or code.co_filename.startswith(self.libraries))


_CONTAINERS = (dict, list, tuple, set, frozenset)


def _data(value):
    try:
        return codec.decode(codec.encode(value))
    except codec.CodecError:
        name = type(value).__name__
        raise AssertionError(f"a {name} was compared with plain data") from None
