"""Stages, weights, whitening and whole algorithms agree with the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout
from tests.credit import oracle, oracle_algorithms
from tests.credit.forests import (
    JUNK,
    NODES,
    REWARDS,
    ROWS,
    agree,
    bools,
    checked,
    closed_forest,
    num_turns,
    trees,
    turned_forest,
)

seeds = st.integers(0, 2**31 - 1)


@checked
@given(closed_forest)
def test_stage_groups(forest):
    actual = np.asarray(
        credit.stage_groups(forest.parents, num_turns=num_turns(forest))
    )
    expected = oracle.stage_groups(forest.parents)
    assert actual.shape == expected.shape
    present = forest.mask if actual.ndim == 2 else forest.mask.any(axis=0)
    np.testing.assert_array_equal(actual[present], expected[present])


@checked
@given(closed_forest)
def test_trajectory(forest):
    expected = oracle.trajectory(*forest.arrays)
    actual = credit.trajectory(*forest.arrays, num_turns=num_turns(forest))
    # A maximum rounds nothing.
    agree(actual, expected, forest, 0.0)


@st.composite
def two_turn_forests(draw):
    if draw(st.booleans()):
        layout = TreeLayout(branching=(3, 1))
        mask = np.reshape(bools(draw, ROWS * 6), (ROWS, 6))
        mask[:, 3:] &= mask[:, :3]
        parents = layout
    else:
        ids = [-1, *(draw(st.integers(-1, 0)) for _ in range(NODES - 1))]
        mask = np.reshape(bools(draw, ROWS * NODES), (ROWS, NODES))
        mask[:, 0] = True
        parents = np.array(ids, np.int32)
    junk = np.float32(draw(st.sampled_from(JUNK)))
    values = np.random.default_rng(draw(seeds)).choice(REWARDS, mask.shape)
    return np.where(mask, values, junk).astype(np.float32), parents, mask


@checked
@given(two_turn_forests(), st.sampled_from([0.0, 0.5, 10.0]))
def test_progress_bonus(arrays, alpha):
    actual = np.asarray(credit.progress_bonus(*arrays, alpha=alpha))
    expected = oracle.progress_bonus(*arrays, alpha=alpha)
    np.testing.assert_array_equal(actual[~arrays[2]], 0.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_progress_bonus_has_two_turns():
    layout = TreeLayout(branching=(2, 1, 1))
    rewards = np.zeros((1, layout.num_nodes), np.float32)
    with pytest.raises(ValueError, match=r"two|2"):
        credit.progress_bonus(rewards, layout, rewards == 0, alpha=10.0)


@checked
@given(closed_forest, st.sampled_from([0.5, 1.0]), st.booleans())
def test_calibrated_weights(forest, max_reward, given_solved):
    options = {
        "num_turns": num_turns(forest),
        "max_reward": max_reward,
        "solved": forest.solved if given_solved else None,
    }
    expected = oracle_algorithms.calibrated_weights(*forest.arrays, **options)
    agree(credit.calibrated_weights(*forest.arrays, **options), expected, forest)


@checked
@given(closed_forest, st.integers(0, 1), st.sampled_from([1e-6, 1e-2]))
def test_stage_wise_and_inherited(forest, ddof, epsilon):
    options = {"num_turns": num_turns(forest), "ddof": ddof, "epsilon": epsilon}
    for name in ("cal_grpo", "multi_attempt_grpo"):
        expected = getattr(oracle_algorithms, name)(*forest.arrays, **options)
        agree(getattr(credit, name)(*forest.arrays, **options), expected, forest, 2e-5)


@checked
@given(turned_forest)
def test_sibling_rules(forest):
    for name in ("dr_grpo", "rloo", "maxrl"):
        expected = getattr(oracle_algorithms, name)(*forest.arrays)
        # MaxRL divides by a mean as small as 1/8 / 9.
        agree(getattr(credit, name)(*forest.arrays), expected, forest, 2e-5)


def lengths_for(forest, seed, junk):
    """Trained tokens of each node, 0 for some, junk where the node is absent."""
    lengths = np.random.default_rng(seed).integers(0, 6, forest.mask.shape)
    return np.where(forest.mask, lengths, junk)


@checked
@given(turned_forest, seeds, st.sampled_from([-5, 2**30]))
def test_whiten(forest, seed, junk):
    advantages = forest.rewards - np.float32(0.5)
    weights = lengths_for(forest, seed, junk)
    expected = oracle_algorithms.whiten(advantages, weights, forest.mask, epsilon=1e-8)
    for weight in (weights.astype(np.int32), weights.astype(np.float32)):
        actual = np.asarray(credit.whiten(advantages, weight, forest.mask))
        assert actual.dtype == np.float32
        np.testing.assert_array_equal(actual[~forest.mask], 0.0)
        # Only nodes with tokens reach the loss.
        read = forest.mask & (weights > 0)
        np.testing.assert_allclose(actual[read], expected[read], rtol=1e-4, atol=1e-4)


@checked
@given(turned_forest, seeds)
def test_reinforce_pp(forest, seed):
    lengths = lengths_for(forest, seed, -3).astype(np.int32)
    expected = oracle_algorithms.reinforce_pp(*forest.arrays, response_lengths=lengths)
    actual = credit.reinforce_pp(*forest.arrays, response_lengths=lengths)
    read = forest.mask & (lengths > 0)
    np.testing.assert_array_equal(np.asarray(actual)[~forest.mask], 0.0)
    np.testing.assert_allclose(actual[read], expected[read], rtol=1e-4, atol=1e-4)


@settings(checked, max_examples=6)  # twenty kernel calls each
@given(closed_forest, st.sampled_from(JUNK))
def test_padding_influences_nothing(forest, junk):
    """Bit for bit: other values in the absent slots change no result."""
    turns = {"num_turns": num_turns(forest)}
    other = np.where(forest.mask, forest.rewards, np.float32(junk))
    lengths = np.ones(forest.mask.shape, np.int32)
    for name, options in [
        ("trajectory", turns),
        ("calibrated_weights", turns),
        ("cal_grpo", turns),
        ("multi_attempt_grpo", turns),
        ("dr_grpo", {}),
        ("rloo", {}),
        ("maxrl", {}),
        ("reinforce_pp", {"response_lengths": lengths}),
        ("prune_inter", {**turns, "budget": 1}),
        ("prune_intra", {**turns, "budget": 2}),
    ]:
        rule = getattr(credit, name)
        np.testing.assert_array_equal(
            rule(forest.rewards, forest.parents, forest.mask, **options),
            rule(other, forest.parents, forest.mask, **options),
        )


@checked
@given(trees())
def test_weights_of_other_rows_do_not_leak(forest):
    """Each row alone gives what it gives in the batch."""
    turns = num_turns(forest)
    together = credit.calibrated_weights(*forest.arrays, num_turns=turns)
    for b in range(ROWS):
        alone = credit.calibrated_weights(
            forest.rewards[b : b + 1],
            forest.parents,
            forest.mask[b : b + 1],
            num_turns=turns,
        )
        np.testing.assert_array_equal(together[b : b + 1], alone)
