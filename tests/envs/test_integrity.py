"""Equality that the solution cannot decide, and the seal on the test libraries."""

import collections
import dataclasses
import fractions
import unittest
from unittest import mock

import pytest

from rlvr_jax.envs.sandbox.integrity import Comparison, Seal


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


class Number(int):
    def __eq__(self, other):
        return True

    __hash__ = None


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Equal(), 3),
        (3, Equal()),
        ([1, Equal()], [1, 2]),
        ({"a": (Equal(),)}, {"a": (1,)}),
        (Equal(), None),
        (Point(1), 1),
        (mock.ANY, 3),
    ],
)
def test_an_object_with_its_own_equality_is_no_data(left, right):
    with pytest.raises(AssertionError, match="compared with plain data"):
        Comparison().settle(left, right)


def test_an_instance_of_a_subclass_is_compared_by_its_data():
    left, right = Comparison().settle(Number(4), 3)
    assert (type(left), left, right) == (int, 4, 3)
    left, _ = Comparison().settle([Number(3)], [3])
    assert left == [3]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Point(1), Point(1)),
        ([1, {2: (3.0, None)}], [1]),
        (fractions.Fraction(1, 2), 0.5),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (range(3), [0]),
        (object(), 3),
    ],
)
def test_other_pairs_are_left_alone(left, right):
    settled = Comparison().settle(left, right)
    assert settled[0] is left
    assert settled[1] is right


def test_matchers_count_where_the_tests_name_them():
    comparison = Comparison()
    with pytest.raises(AssertionError, match="plain data"):
        comparison.settle(0.3, pytest.approx(0.3))
    comparison.allow_matchers(["assert f() == pytest.approx(0.3)"])
    assert comparison.settle(0.3, pytest.approx(0.3))[0] == 0.3
    with pytest.raises(AssertionError, match="plain data"):
        comparison.settle(mock.ANY, 0.3)


def test_a_seal_names_what_was_changed(monkeypatch):
    seal = Seal("unittest")
    assert seal.broken() == ""
    with monkeypatch.context() as patch:
        patch.setattr(unittest.TestCase, "assertTrue", lambda *a: None)
        assert seal.broken() == "assertTrue"
    with monkeypatch.context() as patch:
        code = (lambda *a: None).__code__
        patch.setattr(unittest.TestCase.assertIs, "__code__", code)
        assert seal.broken() == "assertIs"
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "unittest.case", unittest)
        assert seal.broken() == "unittest.case"
    assert seal.broken() == ""


def test_a_seal_mends_builtins():
    seal, length = Seal(""), len
    __builtins__["len"] = lambda x: 0
    assert seal.broken() == "len"
    assert len is length
    assert seal.broken() == ""
