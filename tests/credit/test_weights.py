"""Calibration of attempts and whitening over tokens."""

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

LAYOUT = TreeLayout(branching=(4, 1, 1))
NAN = np.nan
# Turn 1: 1 of 4 solved. Turn 2: 1 of 3. Turn 3: 1 of 2.
REWARDS = np.array([[1, 0, 0, 0, NAN, 1, 0, 0, NAN, NAN, 0, 1]], np.float32)
MASK = ~np.isnan(REWARDS)


def parents_of(kind):
    parents = np.array(LAYOUT.parents)
    return {"layout": LAYOUT, "shared": parents, "rows": parents[None]}[kind]


@pytest.mark.parametrize("kind", ["layout", "shared", "rows"])
def test_calibrated_weights(kind):
    weights = credit.calibrated_weights(REWARDS, parents_of(kind), MASK, num_turns=3)
    third, half = 2 / 3, 1 / 2
    by_turn = [third * half] * 4 + [half] * 4 + [1.0] * 4
    np.testing.assert_allclose(weights[0], by_turn * MASK[0], rtol=1e-6)


def test_turns_that_nobody_reached_count_as_one():
    mask = MASK & (LAYOUT.turns < 2)
    weights = credit.calibrated_weights(REWARDS, LAYOUT, mask, num_turns=3)
    expected = [2 / 3] * 4 + [0.0, 1.0, 1.0, 1.0] + [0.0] * 4
    np.testing.assert_allclose(weights[0], expected, rtol=1e-6)


def test_last_turn_that_solves_all_silences_the_earlier_ones():
    rewards = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
    mask = np.ones((1, 4), bool)
    weights = credit.calibrated_weights(rewards, TreeLayout((2, 1)), mask, num_turns=2)
    np.testing.assert_array_equal(weights, [[0.0, 0.0, 1.0, 1.0]])


def test_rates_are_of_the_row_and_of_solved():
    rewards = np.concatenate([REWARDS, REWARDS])
    mask = np.concatenate([MASK, MASK])
    solved = np.stack([np.zeros(12, bool), np.ones(12, bool)])
    weights = credit.calibrated_weights(
        rewards, LAYOUT, mask, num_turns=3, solved=solved
    )
    np.testing.assert_array_equal(weights[0], MASK[0])
    np.testing.assert_array_equal(weights[1], MASK[0] & (LAYOUT.turns == 2))


def test_max_reward_decides_what_is_solved():
    weights = credit.calibrated_weights(
        REWARDS, LAYOUT, MASK, num_turns=3, max_reward=2.0
    )
    np.testing.assert_array_equal(weights, MASK)


def whitened_by_tokens(advantages, lengths, mask):
    """Every token holds its node's advantage; plain mean and variance over tokens."""
    tokens = np.repeat(advantages[mask].astype(np.float64), lengths[mask])
    scale = 1 / np.sqrt(tokens.var() + 1e-8)
    return np.where(mask, (advantages - tokens.mean()) * scale, 0.0)


def test_whiten_is_over_tokens():
    generator = np.random.default_rng(0)
    mask = generator.random((3, 5)) < 0.7
    advantages = np.where(mask, generator.normal(size=(3, 5)), NAN).astype(np.float32)
    lengths = np.where(mask, generator.integers(1, 9, (3, 5)), -5)
    whitened = credit.whiten(advantages, lengths, mask)
    assert whitened.dtype == np.float32
    expected = whitened_by_tokens(advantages, lengths, mask)
    np.testing.assert_allclose(whitened, expected, rtol=1e-5, atol=1e-6)
    compiled = jax.jit(jax.vmap(credit.whiten))(
        np.stack([advantages] * 2), np.stack([lengths] * 2), np.stack([mask] * 2)
    )
    np.testing.assert_allclose(compiled[1], expected, rtol=1e-5, atol=1e-6)


def test_whiten_epsilon_is_under_the_root():
    advantages, tokens = np.array([[1.0, -1.0]], np.float32), np.ones((1, 2), int)
    whitened = credit.whiten(advantages, tokens, tokens > 0, epsilon=3.0)
    np.testing.assert_allclose(whitened, [[0.5, -0.5]])


@pytest.mark.parametrize("value", [0.0, 0.35, 1e4 / 3])
def test_whiten_of_equal_advantages_is_zero(value):
    advantages = np.full((1, 7), value, np.float32)
    lengths = np.arange(1, 8)[None]
    with jax.debug_nans(True):
        whitened = jax.jit(credit.whiten)(advantages, lengths, lengths > 0)
        nothing = jax.jit(credit.whiten)(advantages, lengths, lengths < 0)
    np.testing.assert_array_equal(whitened, 0.0)
    np.testing.assert_array_equal(nothing, 0.0)


def test_whiten_bad_input():
    ones = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match="mask must be bool"):
        credit.whiten(ones, ones, ones)
    with pytest.raises(ValueError, match=r"weights must have the shape of mask"):
        credit.whiten(ones, ones[0], ones > 0)
    with pytest.raises(ValueError, match=r"advantages must have the shape of mask"):
        credit.whiten(ones[:, :1], ones, ones > 0)
    for wrong in (-1.0, NAN):
        with pytest.raises(ValueError, match=r"weights must be >= 0"):
            credit.whiten(ones, np.array([[1.0, wrong]]), ones > 0)
