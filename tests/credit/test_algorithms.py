"""Whole algorithms: numbers by hand, and each is a setting of `assign`."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout, empty_tree

ONE_RIGHT = np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)
FOUR = TreeLayout(branching=(4,))
LENGTHS = np.array([[2, 3, 1, 4]])

# Rollouts [1], [0, 1], [0, 0], [0, 1]; the first one has no retry.
CHAINS = TreeLayout(branching=(4, 1))
CHAIN_REWARDS = np.array([[1.0, 0.0, 0.0, 0.0, np.nan, 1.0, 0.0, 1.0]], np.float32)
CHAIN_MASK = ~np.isnan(CHAIN_REWARDS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", [1.5, -0.5, -0.5, -0.5]),
        ("dr_grpo", [0.75, -0.25, -0.25, -0.25]),
        ("rloo", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("maxrl", [3.0, -1.0, -1.0, -1.0]),
    ],
)
@pytest.mark.parametrize("kind", ["layout", "array"])
def test_one_solved_of_four(name, expected, kind):
    parents = FOUR if kind == "layout" else np.full(4, -1)
    advantages = getattr(credit, name)(ONE_RIGHT, parents, ONE_RIGHT >= 0)
    # 2e-5: epsilon stands in the scale.
    np.testing.assert_allclose(advantages[0], expected, atol=2e-5)


def test_maxrl_epsilon_is_added_to_the_mean():
    advantages = credit.maxrl(ONE_RIGHT, FOUR, ONE_RIGHT >= 0, epsilon=0.25)
    np.testing.assert_allclose(advantages[0], [1.5, -0.5, -0.5, -0.5])


def test_reinforce_pp_whitens_over_tokens_of_the_batch():
    rewards = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]], np.float32)
    lengths = np.array([[2, 3, 1, 4], [5, 1, 2, 2], [1, 7, 1, 1]])
    mask = np.ones((3, 4), bool)
    mask[1, 3] = False
    centered = np.array(
        [[0.75, -0.25, -0.25, -0.25], [1 / 3, 1 / 3, -2 / 3, 0], [0, 0, 0, 0]]
    )
    tokens = np.repeat(centered[mask], lengths[mask])
    expected = (centered - tokens.mean()) / np.sqrt(tokens.var() + 1e-8) * mask
    advantages = credit.reinforce_pp(
        np.where(mask, rewards, np.nan).astype(np.float32),
        FOUR,
        mask,
        response_lengths=lengths,
    )
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["layout", "shared", "rows"])
def test_cal_grpo(kind):
    parents = {
        "layout": CHAINS,
        "shared": np.array(CHAINS.parents),
        "rows": np.array(CHAINS.parents)[None],
    }[kind]
    advantages = credit.cal_grpo(CHAIN_REWARDS, parents, CHAIN_MASK, num_turns=2)
    # Two of three retries solve: attempt 1 weighs 1/3 of its stage-wise advantage.
    first = np.array([1.5, -0.5, -0.5, -0.5]) / 3
    second = [0.0, 0.57735, -1.1547, 0.57735]
    np.testing.assert_allclose(advantages[0], [*first, *second], atol=2e-5)


@pytest.mark.parametrize("kind", ["layout", "shared", "rows"])
def test_multi_attempt_grpo(kind):
    parents = {
        "layout": CHAINS,
        "shared": np.array(CHAINS.parents),
        "rows": np.where(CHAIN_MASK, CHAINS.parents[None], 77),
    }[kind]
    advantages = credit.multi_attempt_grpo(
        CHAIN_REWARDS, parents, CHAIN_MASK, num_turns=2
    )
    expected = [0.5, 0.5, -1.5, 0.5, 0.0, 0.5, -1.5, 0.5]
    np.testing.assert_allclose(advantages[0], expected, atol=2e-5)


def test_attempts_below_an_absent_first_one_get_nothing():
    mask = CHAIN_MASK.copy()
    mask[0, 3] = False
    advantages = credit.multi_attempt_grpo(CHAIN_REWARDS, CHAINS, mask, num_turns=2)
    assert advantages[0, 7] == 0.0
    third = 3**-0.5
    np.testing.assert_allclose(advantages[0, :3], [third, third, -2 * third], atol=1e-5)


def random_tree(branching, seed=0):
    """A tree whose rewards are shaped (so `solved` differs), with junk in padding."""
    layout = TreeLayout(branching=branching)
    generator = np.random.default_rng(seed)
    tree = empty_tree(
        layout,
        num_prompts=5,
        prompt_length=1,
        response_length=1,
        feedback_length=0,
    )
    mask = generator.random(tree.node_mask.shape) < 0.85
    for node, parent in enumerate(layout.parents):
        if parent >= 0:
            mask[:, node] &= mask[:, parent]
    rewards = generator.choice([0.0, 0.25, 0.35, 1.0], mask.shape)
    return dataclasses.replace(
        tree,
        node_mask=mask,
        rewards=np.where(mask, rewards, np.nan).astype(np.float32),
        solved=mask & (generator.random(mask.shape) < 0.4),
        response_lengths=np.where(mask, generator.integers(1, 9, mask.shape), -3),
    )


def arrays_of(tree):
    return tree.rewards, tree.layout, tree.node_mask


SETTINGS = {
    "grpo": ({}, lambda t: credit.grpo(*arrays_of(t))),
    "dr_grpo": ({"scale": "none"}, lambda t: credit.dr_grpo(*arrays_of(t))),
    "rloo": (
        {"baseline": "leave_one_out", "scale": "none"},
        lambda t: credit.rloo(*arrays_of(t)),
    ),
    "maxrl": ({"scale": "mean"}, lambda t: credit.maxrl(*arrays_of(t))),
    "reinforce_pp": (
        {"scale": "none", "whiten": True},
        lambda t: credit.reinforce_pp(
            *arrays_of(t), response_lengths=t.response_lengths
        ),
    ),
    "multi_attempt_grpo": (
        {"backup": "trajectory", "level": "trajectory"},
        lambda t: credit.multi_attempt_grpo(*arrays_of(t), num_turns=3),
    ),
    "cal_grpo": (
        {"group": "stage", "weight": "calibrated"},
        lambda t: credit.cal_grpo(*arrays_of(t), num_turns=3, solved=t.solved),
    ),
    "reapo": ({"group": "prompt"}, lambda t: credit.reapo(*arrays_of(t))),
    "murphy_mars": (
        {"backup": "mars"},
        lambda t: credit.murphy(*arrays_of(t), num_turns=3),
    ),
    "murphy_mers": (
        {"backup": "mers", "discount": 0.7},
        lambda t: credit.murphy(
            *arrays_of(t), num_turns=3, backup="mers", discount=0.7, solved=t.solved
        ),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_assign_is_the_algorithm(name):
    settings, algorithm = SETTINGS[name]
    tree = random_tree((4, 3, 2))
    assigned = credit.assign(tree, credit.CreditConfig(**settings))
    expected = algorithm(tree)
    assert np.any(np.abs(expected) > 0.1)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(assigned.keep_mask, tree.node_mask)
    np.testing.assert_array_equal(np.asarray(assigned.returns)[~tree.node_mask], 0.0)


@pytest.mark.parametrize("group", ["prompt", "stage"])
def test_trajectories_count_once_in_any_group(group):
    """Only turn-0 nodes are compared, so that long trajectories weigh no more."""
    tree = random_tree((4, 3, 2))
    config = credit.CreditConfig(backup="trajectory", level="trajectory", group=group)
    expected = credit.multi_attempt_grpo(*arrays_of(tree), num_turns=3)
    assigned = credit.assign(tree, config)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-5, atol=1e-6)


def test_assign_scores_progress():
    """SCoRe: each attempt on its own shaped reward, here among attempts of a stage."""
    tree = random_tree((4, 1))
    config = credit.CreditConfig(
        progress_bonus=10.0, group="stage", baseline="leave_one_out", scale="none"
    )
    assigned = credit.assign(tree, config)
    shaped = credit.progress_bonus(*arrays_of(tree), alpha=10.0)
    np.testing.assert_allclose(assigned.returns, shaped, rtol=1e-6)
    expected = credit.group_advantages(
        shaped,
        credit.stage_groups(tree.layout, num_turns=2),
        tree.node_mask,
        baseline="leave_one_out",
        scale="none",
    )
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("pruning", "score", "moments"),
    [("inter", "returns", "survivors"), ("intra", "raw", "all")],
)
def test_assign_prunes(pruning, score, moments):
    tree = random_tree((4, 3, 2))
    config = credit.CreditConfig(
        backup="mers",
        pruning=pruning,
        prune_budget=2,
        prune_score=score,
        moments=moments,
    )
    assigned = credit.assign(tree, config)
    returns = credit.mers(*arrays_of(tree), num_turns=3, solved=tree.solved)
    keep = getattr(credit, f"prune_{pruning}")(
        returns if score == "returns" else tree.rewards,
        tree.layout,
        tree.node_mask,
        num_turns=3,
        budget=2,
    )
    assert np.sum(keep) < np.sum(tree.node_mask)
    np.testing.assert_array_equal(assigned.keep_mask, keep)
    # Backed up on the full tree, whatever is pruned afterwards.
    np.testing.assert_allclose(assigned.returns, returns, rtol=1e-6)
    advantages = credit.group_advantages(
        returns,
        credit.sibling_groups(tree.layout),
        keep if moments == "survivors" else tree.node_mask,
    )
    expected = np.where(keep, advantages, 0.0)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-4, atol=1e-5)


def test_assign_whitens_what_is_kept():
    tree = random_tree((6, 2))
    config = credit.CreditConfig(
        scale="none", whiten=True, pruning="intra", prune_budget=3
    )
    assigned = credit.assign(tree, config)
    keep = np.asarray(assigned.keep_mask)
    tokens = np.repeat(assigned.advantages[keep], tree.response_lengths[keep])
    np.testing.assert_allclose([tokens.mean(), tokens.var()], [0, 1], atol=1e-4)
    np.testing.assert_array_equal(np.asarray(assigned.advantages)[~keep], 0.0)


def test_calibration_counts_pruned_attempts():
    tree = random_tree((6, 1))
    pruned = credit.CreditConfig(
        group="stage",
        weight="calibrated",
        moments="all",
        pruning="intra",
        prune_budget=2,
    )
    whole = dataclasses.replace(pruned, pruning="none", prune_budget=0)
    assigned, full = credit.assign(tree, pruned), credit.assign(tree, whole)
    expected = np.where(assigned.keep_mask, full.advantages, 0.0)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-6)


ALGORITHMS = {
    "dr_grpo": credit.dr_grpo,
    "rloo": credit.rloo,
    "maxrl": credit.maxrl,
    "cal_grpo": lambda r, p, m: credit.cal_grpo(r, p, m, num_turns=3),
    "multi_attempt_grpo": lambda r, p, m: credit.multi_attempt_grpo(
        r, p, m, num_turns=3
    ),
    "reinforce_pp": lambda r, p, m: credit.reinforce_pp(
        r, p, m, response_lengths=m.astype(np.int32)
    ),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_jit_vmap_and_parents(name):
    """Layout and arrays agree, alone, compiled and over a leading axis."""
    algorithm = ALGORITHMS[name]
    tree = random_tree((3, 2, 2), seed=3)
    rewards, layout, mask = arrays_of(tree)
    expected = algorithm(rewards, layout, mask)
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(expected)[~mask], 0.0)
    junk = np.where(mask, layout.parents[None], -9)
    compiled = jax.jit(algorithm)(rewards, junk, mask)
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)
    mapped = jax.jit(jax.vmap(lambda r, m: algorithm(r, layout, m)))(
        np.stack([rewards, rewards]), np.stack([mask, mask])
    )
    np.testing.assert_allclose(mapped[1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_degenerate_groups_give_zero(name):
    layout = TreeLayout(branching=(7, 2, 1))
    shape = (4, layout.num_nodes)
    rewards, mask = np.full(shape, 0.35, np.float32), np.ones(shape, bool)
    rewards[1, :7], mask[1, 7:] = 1.0, False  # all solved at once
    mask[2] = False  # nothing there
    rewards[3], mask[3] = 1.0, np.arange(layout.num_nodes) == 0  # one attempt
    algorithm = ALGORITHMS[name]
    with jax.debug_nans(True):
        advantages = jax.jit(lambda r, m: algorithm(r, layout, m))(rewards, mask)
    np.testing.assert_array_equal(advantages, 0.0)
