"""Kernels and oracle agree on random forests, whatever the padding holds."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout, empty_tree
from tests.credit import oracle
from tests.credit.forests import (
    JUNK,
    NODES,
    REWARDS,
    ROWS,
    agree,
    any_forest,
    checked,
    closed_under_ancestors,
    forests,
    num_turns,
    trees,
    turned_forest,
)


@checked
@given(any_forest)
def test_mars(forest):
    turns = num_turns(forest)
    expected = oracle.mars(*forest.arrays)
    # A maximum rounds nothing.
    agree(credit.mars(*forest.arrays, num_turns=turns), expected, forest, 0.0)


@checked
@given(
    turned_forest,
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.sampled_from([0.5, 1.0]),
    st.booleans(),
    st.integers(0, 1),
)
def test_mers(forest, discount, max_reward, given_solved, spare_turns):
    options = {
        "num_turns": num_turns(forest),
        "discount": discount,
        "max_reward": max_reward,
        "solved": forest.solved if given_solved else None,
    }
    if not isinstance(forest.parents, TreeLayout):
        # More turns than the forest is deep: everybody divides by more.
        options["num_turns"] += spare_turns
    expected = oracle.mers(*forest.arrays, **options)
    agree(credit.mers(*forest.arrays, **options), expected, forest)


@checked
@given(
    any_forest,
    st.sampled_from(["mean", "leave_one_out", "none"]),
    st.sampled_from(["std", "mean", "none"]),
    st.integers(0, 1),
    st.sampled_from([1e-6, 1e-2]),
    st.sampled_from(["sibling", "prompt"]),
)
def test_group_advantages(forest, baseline, scale, ddof, epsilon, group):
    options = {
        "baseline": baseline,
        "scale": scale,
        "ddof": ddof,
        "epsilon": epsilon,
    }
    ids = getattr(credit, f"{group}_groups")(forest.parents)
    expected_ids = getattr(oracle, f"{group}_groups")(forest.parents)
    expected = oracle.group_advantages(
        forest.rewards, expected_ids, forest.mask, **options
    )
    actual = credit.group_advantages(forest.rewards, ids, forest.mask, **options)
    if baseline == "none":
        # Groups of equal returns have their own test in test_degenerate.py.
        compared = oracle.group_advantages(forest.rewards, expected_ids, forest.mask)
        actual = np.where(compared == 0, 0, actual).astype(np.float32)
        expected = np.where(compared == 0, 0, expected)
    agree(actual, expected, forest, 2e-5)


@checked
@given(forests(per_row=True), st.integers(1, 5), st.data())
def test_group_advantages_with_free_ids(forest, count, data):
    """Ids need not come from a tree: any id in [0, num_groups), junk where absent."""
    size = ROWS * NODES
    ids = data.draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))
    ids = np.where(forest.mask, np.reshape(ids, (ROWS, NODES)), 2**31 - 1)
    ids = ids.astype(np.int32)
    expected = oracle.group_advantages(forest.rewards, ids, forest.mask)
    actual = credit.group_advantages(forest.rewards, ids, forest.mask, num_groups=count)
    agree(actual, expected, forest, 2e-5)


@checked
@given(any_forest, st.integers(0, 1), st.sampled_from([1e-6, 1e-2]))
def test_grpo_and_reapo(forest, ddof, epsilon):
    options = {"ddof": ddof, "epsilon": epsilon}
    for name in ("grpo", "reapo"):
        expected = getattr(oracle, name)(*forest.arrays, **options)
        actual = getattr(credit, name)(*forest.arrays, **options)
        agree(actual, expected, forest, 2e-5)


@checked
@given(
    turned_forest,
    st.sampled_from(["mars", "mers"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 1),
    st.booleans(),
)
def test_murphy(forest, backup, discount, ddof, given_solved):
    options = {
        "num_turns": num_turns(forest),
        "backup": backup,
        "discount": discount,
        "ddof": ddof,
        "solved": forest.solved if given_solved else None,
    }
    expected = oracle.murphy(*forest.arrays, **options)
    actual = credit.murphy(*forest.arrays, **options)
    # MeRS returns are rounded before the division by their spread, which can be 1e-3.
    agree(actual, expected, forest, 2e-3 if backup == "mers" else 2e-5)


@checked
@given(trees())
def test_layout_and_arrays_are_one_tree(forest):
    """The reshaping path of a layout and the scattering path of arrays agree."""
    layout, turns = forest.parents, forest.parents.num_turns
    shared = np.array(layout.parents)
    rows = np.tile(shared, (ROWS, 1))
    mask = closed_under_ancestors(forest.mask, shared)
    forest = dataclasses.replace(forest, mask=mask)
    for parents in (shared, rows):
        for rule in (credit.mars, credit.mers):
            np.testing.assert_allclose(
                rule(forest.rewards, layout, forest.mask, num_turns=turns),
                rule(forest.rewards, parents, forest.mask, num_turns=turns),
                rtol=1e-6,
                atol=1e-6,
            )
        for rule in (credit.grpo, credit.reapo):
            np.testing.assert_allclose(
                rule(forest.rewards, layout, forest.mask),
                rule(forest.rewards, parents, forest.mask),
                rtol=1e-5,
                atol=1e-5,
            )


@checked
@given(any_forest, st.sampled_from(JUNK))
def test_padding_influences_nothing(forest, junk):
    """Bit for bit: other values in the absent slots change no result."""
    turns = num_turns(forest)
    other = np.where(forest.mask, forest.rewards, np.float32(junk))
    for name, options in [
        ("mars", {"num_turns": turns}),
        ("mers", {"num_turns": turns}),
        ("murphy", {"num_turns": turns, "backup": "mers"}),
        ("grpo", {}),
        ("reapo", {}),
    ]:
        rule = getattr(credit, name)
        np.testing.assert_array_equal(
            rule(forest.rewards, forest.parents, forest.mask, **options),
            rule(other, forest.parents, forest.mask, **options),
        )


def random_layout_batch(branching, leading, seed=0):
    layout = TreeLayout(branching=branching)
    generator = np.random.default_rng(seed)
    shape = (*leading, layout.num_nodes)
    rewards = generator.choice(REWARDS, shape).astype(np.float32)
    mask = closed_under_ancestors(generator.random(shape) < 0.8, layout.parents)
    return layout, np.where(mask, rewards, np.nan).astype(np.float32), mask


RULES = [
    ("mars", {"num_turns": 3}),
    ("mers", {"num_turns": 3}),
    ("murphy", {"num_turns": 3, "backup": "mers"}),
    ("grpo", {}),
    ("reapo", {}),
]


@pytest.mark.parametrize(("name", "options"), RULES)
@pytest.mark.parametrize("kind", ["layout", "shared", "rows"])
def test_jit_and_vmap(name, options, kind):
    layout, rewards, mask = random_layout_batch((3, 2, 2), (4, 2))
    expected = np.stack(
        [
            getattr(oracle, name)(r, layout, m, **options)
            for r, m in zip(rewards, mask, strict=True)
        ]
    )
    if kind == "layout":

        def rule(r, m):
            return getattr(credit, name)(r, layout, m, **options)

        arrays = rewards, mask
    else:

        def rule(r, p, m):
            return getattr(credit, name)(r, p, m, **options)

        parents = np.array(layout.parents)
        tiles = (4, 1) if kind == "shared" else (4, 2, 1)
        arrays = rewards, np.tile(parents, tiles), mask
    compiled = jax.jit(jax.vmap(rule))(*arrays)
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)
    alone = jax.jit(rule)(*(array[1] for array in arrays))
    np.testing.assert_allclose(alone, expected[1], rtol=1e-4, atol=1e-5)


def test_layout_is_a_static_argument():
    layout, rewards, mask = random_layout_batch((3, 2), (2,))
    rule = jax.jit(credit.grpo, static_argnames="parents")
    actual = rule(rewards, parents=layout, node_mask=mask)
    expected = oracle.grpo(rewards, layout, mask)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def rollout_tree(layout, rewards, solved, mask):
    tree = empty_tree(
        layout,
        num_prompts=len(mask),
        prompt_length=1,
        response_length=1,
        feedback_length=0,
    )
    return dataclasses.replace(tree, rewards=rewards, solved=solved, node_mask=mask)


@pytest.mark.parametrize(
    ("backup", "group"), [("own", "prompt"), ("mars", "sibling"), ("mers", "prompt")]
)
def test_assign(backup, group):
    layout, rewards, mask = random_layout_batch((3, 2, 2), (3,))
    # `solved` of the tree decides, not the reward: shaping may have moved the reward.
    solved = np.random.default_rng(1).random(mask.shape) < 0.3
    config = credit.CreditConfig(
        backup=backup,
        group=group,
        baseline="leave_one_out",
        scale="std",
        ddof=0,
        epsilon=1e-3,
        discount=0.5,
    )
    result = credit.assign(rollout_tree(layout, rewards, solved, mask), config)
    returns = {
        "own": lambda: np.where(mask, rewards, 0.0),
        "mars": lambda: oracle.mars(rewards, layout, mask),
        "mers": lambda: oracle.mers(
            rewards, layout, mask, num_turns=3, discount=0.5, solved=solved
        ),
    }[backup]()
    ids = getattr(oracle, f"{group}_groups")(layout)
    advantages = oracle.group_advantages(
        returns, ids, mask, baseline="leave_one_out", ddof=0, epsilon=1e-3
    )
    np.testing.assert_allclose(result.returns, returns, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.advantages, advantages, rtol=1e-4, atol=1e-4)
    # Without pruning every node that is there is kept.
    np.testing.assert_array_equal(result.keep_mask, mask)
