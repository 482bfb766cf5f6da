"""Best of a trajectory, progress bonus, stages: what a turn takes from the others."""

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

CHAINS = TreeLayout(branching=(4, 1))
# Rollouts [1], [0, 1], [0, 0], [0, 1]; the first one has no retry.
REWARDS = np.array([[1.0, 0.0, 0.0, 0.0, np.nan, 1.0, 0.0, 1.0]], np.float32)
MASK = ~np.isnan(REWARDS)


def forms(layout):
    """The layout, and the same forest as arrays [N] and [1, N]."""
    parents = np.array(layout.parents)
    return [layout, parents, parents[None], jax.numpy.asarray(parents)]


@pytest.mark.parametrize("form", range(4))
def test_best_of_each_chain(form):
    returns = credit.trajectory(REWARDS, forms(CHAINS)[form], MASK, num_turns=2)
    expected = [[1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]
    np.testing.assert_array_equal(returns, expected)


@pytest.mark.parametrize("form", range(4))
def test_best_of_all_branches(form):
    """The best leaf counts for the whole tree of its root, siblings' branches too."""
    layout = TreeLayout(branching=(2, 2, 1))
    rewards = np.full((1, 10), 0.25, np.float32)
    rewards[0, 6] = 0.75  # below slot 2, below root 0
    mask = np.ones((1, 10), bool)
    returns = credit.trajectory(rewards, forms(layout)[form], mask, num_turns=3)
    tree_of_0 = [0, 2, 3, 6, 7]
    expected = np.where(np.isin(np.arange(10), tree_of_0), 0.75, 0.25)
    np.testing.assert_array_equal(returns[0], expected)


def test_negative_rewards_are_not_lifted_to_zero():
    rewards = np.array([[-2.0, np.nan]], np.float32)
    mask = np.array([[True, False]])
    for parents in forms(TreeLayout((1, 1))):
        returns = credit.trajectory(rewards, parents, mask, num_turns=2)
        np.testing.assert_array_equal(returns, [[-2.0, 0.0]])


def test_absent_node_joins_on_a_layout_and_cuts_an_array():
    layout = TreeLayout((1, 1, 1))
    rewards = np.array([[0.0, np.nan, 1.0]], np.float32)
    mask = np.array([[True, False, True]])
    whole = credit.trajectory(rewards, layout, mask, num_turns=3)
    np.testing.assert_array_equal(whole, [[1.0, 0.0, 1.0]])
    junk = np.array([-1, 99, 1], np.int32)
    cut = credit.trajectory(rewards, junk, mask, num_turns=3)
    np.testing.assert_array_equal(cut, [[0.0, 0.0, 1.0]])


@pytest.mark.parametrize("form", range(4))
def test_progress_bonus(form):
    layout = TreeLayout(branching=(2, 2))
    # Retries of 0.5: better, worse. Retries of an absent attempt: no comparison.
    rewards = np.array([[0.5, np.nan, 1.0, 0.25, 1.0, np.inf]], np.float32)
    mask = np.array([[True, False, True, True, True, False]])
    shaped = credit.progress_bonus(rewards, forms(layout)[form], mask, alpha=10.0)
    np.testing.assert_allclose(shaped, [[0.5, 0.0, 6.0, -2.25, 1.0, 0.0]])


def test_progress_bonus_of_zero_is_none():
    shaped = credit.progress_bonus(REWARDS, CHAINS, MASK, alpha=0.0)
    np.testing.assert_array_equal(shaped, np.where(MASK, REWARDS, 0.0))


def test_progress_bonus_on_one_turn_and_on_three():
    one = np.array([[0.5, 1.0]], np.float32)
    shaped = credit.progress_bonus(one, TreeLayout((2,)), one > 0, alpha=10.0)
    np.testing.assert_array_equal(shaped, one)
    deep = np.zeros((1, 3), np.float32)
    for parents in forms(TreeLayout((1, 1, 1))):
        with pytest.raises(ValueError, match=r"at most 2 turns.*depth of 3"):
            credit.progress_bonus(deep, parents, deep == 0, alpha=1.0)


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_alpha(alpha):
    with pytest.raises(ValueError, match=r"alpha must be >= 0"):
        credit.progress_bonus(REWARDS, CHAINS, MASK, alpha=alpha)


def test_stages():
    parents = np.array([-1, 0, 1, -1, 3], np.int32)
    expected = [0, 1, 2, 0, 1]
    np.testing.assert_array_equal(credit.stage_groups(parents, num_turns=3), expected)
    rows = np.stack([parents, np.full(5, -1, np.int32)])
    stages = credit.stage_groups(rows, num_turns=3)
    np.testing.assert_array_equal(stages, [expected, [0] * 5])
    traced = jax.jit(lambda p: credit.stage_groups(p, num_turns=3))(rows)
    np.testing.assert_array_equal(traced, stages)
    layout = TreeLayout((2, 1, 3))
    np.testing.assert_array_equal(
        credit.stage_groups(layout, num_turns=3), layout.turns
    )


def test_stages_stay_in_range_whatever_padding_holds():
    parents = np.array([-1, 0, 2**31 - 1, -7, 4, 3], np.int32)
    stages = credit.stage_groups(parents, num_turns=2)
    assert stages[:2].tolist() == [0, 1]
    assert stages.min() >= 0 and stages.max() < 2


@pytest.mark.parametrize("num_turns", [0, 1])
def test_stages_of_too_few_turns(num_turns):
    with pytest.raises(ValueError, match=f"num_turns.*{num_turns}"):
        credit.stage_groups(CHAINS, num_turns=num_turns)


@pytest.mark.parametrize("name", ["trajectory", "multi_attempt_grpo"])
def test_gradients_are_finite(name):
    def total(rewards):
        rule = getattr(credit, name)
        return (rule(rewards, CHAINS, MASK, num_turns=2) * np.arange(8.0)[None]).sum()

    with jax.debug_nans(True):
        rewards = np.where(MASK, REWARDS, 7.0).astype(np.float32)
        gradient = jax.jit(jax.grad(total))(rewards)
    assert np.all(np.isfinite(gradient))
    assert gradient[0, 4] == 0.0
