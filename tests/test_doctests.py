"""Every public name of the core has an example, and the examples hold."""

import doctest
import importlib

import pytest

MODULES = [
    "rlvr_jax.tree",
    "rlvr_jax.credit.backups",
    "rlvr_jax.credit.groups",
    "rlvr_jax.credit.advantages",
    "rlvr_jax.credit.algorithms",
    "rlvr_jax.credit.assignment",
    "rlvr_jax.credit.pruning",
    "rlvr_jax.credit.retry_algorithms",
    "rlvr_jax.credit.shaping",
    "rlvr_jax.credit.weights",
    "rlvr_jax.objective.kl",
    "rlvr_jax.objective.reductions",
    "rlvr_jax.objective.surrogates",
    "rlvr_jax.packing",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_each_credit_function_has_an_example() -> None:
    credit = importlib.import_module("rlvr_jax.credit")
    functions = [name for name in credit.__all__ if name[0].islower()]
    without = [n for n in functions if ">>>" not in getattr(credit, n).__doc__]
    assert without == []
