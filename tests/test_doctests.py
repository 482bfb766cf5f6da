"""Every public name of the core has an example, and the examples hold."""

import doctest
import importlib

import pytest

MODULES = [
    "rlvr_jax.tree",
    "rlvr_jax.sharding",
    "rlvr_jax.distributed",
    "rlvr_jax.credit.backups",
    "rlvr_jax.credit.groups",
    "rlvr_jax.credit.advantages",
    "rlvr_jax.credit.algorithms",
    "rlvr_jax.credit.assignment",
    "rlvr_jax.credit.pruning",
    "rlvr_jax.credit.retry_algorithms",
    "rlvr_jax.credit.shaping",
    "rlvr_jax.credit.weights",
    "rlvr_jax.objective.entropies",
    "rlvr_jax.objective.kl",
    "rlvr_jax.objective.loss",
    "rlvr_jax.objective.mismatch",
    "rlvr_jax.objective.reductions",
    "rlvr_jax.objective.responses",
    "rlvr_jax.objective.shaping",
    "rlvr_jax.objective.surrogates",
    "rlvr_jax.packing.rows",
    "rlvr_jax.tasks.formats.columns",
    "rlvr_jax.tasks.formats.answers",
    "rlvr_jax.envs.reference",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", ["rlvr_jax.credit", "rlvr_jax.objective"])
def test_each_function_of_a_core_package_has_an_example(name: str) -> None:
    package = importlib.import_module(name)
    functions = [name for name in package.__all__ if name[0].islower()]
    without = [n for n in functions if ">>>" not in getattr(package, n).__doc__]
    assert without == []
