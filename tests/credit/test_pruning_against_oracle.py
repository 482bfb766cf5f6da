"""Pruning agrees with brute force over subsets."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout
from tests.credit import oracle_pruning
from tests.credit.forests import checked, closed_forest, num_turns


def ranks_by_rounding(forest):
    """Whether two different groups spread equally: rounding would decide the rank."""
    ids = getattr(forest.parents, "parents", forest.parents)
    ids = np.broadcast_to(ids, forest.mask.shape)
    for b in range(len(ids)):
        groups = [
            sorted(forest.rewards[b][forest.mask[b] & (ids[b] == parent)].tolist())
            for parent in range(ids.shape[1])
        ]
        for one, other in itertools.combinations(groups, 2):
            gap = oracle_pruning.spread(one) - oracle_pruning.spread(other)
            if one != other and max(len(one), len(other)) > 1 and abs(gap) < 1e-6:
                return True
    return False


@checked
@given(closed_forest, st.integers(1, 4))
def test_prune_inter(forest, budget):
    assume(not ranks_by_rounding(forest))
    options = {"num_turns": num_turns(forest), "budget": budget}
    actual = np.asarray(credit.prune_inter(*forest.arrays, **options))
    assert actual.dtype == bool
    expected = oracle_pruning.prune_inter(*forest.arrays, **options)
    np.testing.assert_array_equal(actual, expected)


@checked
@given(closed_forest, st.integers(1, 5))
def test_prune_intra(forest, budget):
    options = {"num_turns": num_turns(forest), "budget": budget}
    actual = np.asarray(credit.prune_intra(*forest.arrays, **options))
    assert actual.dtype == bool
    expected = oracle_pruning.prune_intra(*forest.arrays, **options)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("seed", range(4))
def test_prune_intra_in_wide_groups(seed):
    """A group of eight, rewards of two and of many values."""
    generator = np.random.default_rng(seed)
    values = [0.0, 1.0] if seed % 2 else np.arange(9) / 8
    rewards = generator.choice(values, (3, 8)).astype(np.float32)
    mask = generator.random((3, 8)) < 0.9
    layout = TreeLayout(branching=(8,))
    for budget in (1, 3, 4, 7, 8):
        options = {"num_turns": 1, "budget": budget}
        np.testing.assert_array_equal(
            credit.prune_intra(rewards, layout, mask, **options),
            oracle_pruning.prune_intra(rewards, layout, mask, **options),
        )
