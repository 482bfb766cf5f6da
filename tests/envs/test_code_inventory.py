"""Tests that a source holds, counted from its text."""

import pytest

from rlvr_jax.envs.code.inventory import items

CASES = """
import unittest
class Base(unittest.TestCase):
    def helper(self): pass
    def test_base(self): pass
class More(Base):
    def test_more(self): pass
    def test_base(self): self.fail()
    @unittest.skip("")
    def test_skipped(self): pass
class TestPlain:
    def test_of_no_case(self): pass
@unittest.skipIf(True, "")
class Skipped(Base):
    pass
def test_function(): pass
"""
MODULE = """
import pytest
from pytest import mark
NUMBERS = [1, 2, 3]
def test_one(): pass
def helper(): pass
async def test_later(): pass
@mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", (1, 2))
def test_product(a, b): pass
@pytest.mark.parametrize("a", [*NUMBERS, 4])
def test_unknown(a): pass
@pytest.mark.parametrize("a", argvalues=[1])
def test_named(a): pass
@pytest.mark.xfail
def test_wrong(): pass
@pytest.mark.parametrize("c", [1, 2])
class TestClass:
    def test_method(self, c): pass
    @pytest.mark.skipif(True, reason="")
    def test_skipped(self, c): pass
class Helper:
    def test_nothing(self): pass
def test_one(): assert False
"""


def test_methods_of_test_cases():
    found = [item.name for item in items((CASES,), "unittest")]
    assert found == ["Base::test_base", "More::test_base", "More::test_more"]


def test_functions_of_modules():
    found = [(item.name, item.runs) for item in items((MODULE, MODULE), "pytest")]
    assert found[: len(found) // 2] == found[len(found) // 2 :]
    assert found[: len(found) // 2] == [
        ("test_later", 1),
        ("test_product", 6),
        ("test_unknown", 0),
        ("test_named", 0),
        ("TestClass::test_method", 2),
        ("test_one", 1),
    ]
    (last,) = [i for i in items((MODULE,), "pytest") if i.name == "test_one"]
    assert last.text == "def test_one(): assert False"


def test_asserts_are_numbered_in_each_source():
    found = items(("assert f(1)\nassert True\nassert f(2) == 3", "f(3)"), "")
    assert [(i.source, i.name, i.text) for i in found] == [
        (0, "0", "assert f(1)"),
        (0, "1", "assert f(2) == 3"),
        (1, "0", "f(3)"),
    ]


def test_a_source_that_is_no_python():
    with pytest.raises(SyntaxError):
        items(("def f(:",), "pytest")
