"""What pruning keeps: exact subsets, ties, descendants."""

import itertools

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

RULES = {"inter": credit.prune_inter, "intra": credit.prune_intra}


def forms(layout):
    parents = np.array(layout.parents)
    return {"layout": layout, "shared": parents, "rows": parents[None]}


@pytest.fixture(params=["layout", "shared", "rows"])
def form(request):
    return lambda layout: forms(layout)[request.param]


@pytest.fixture(params=RULES)
def rule(request):
    return RULES[request.param]


def flat(returns, budget, mask=None):
    """Slots of one group that `prune_intra` keeps."""
    mask = [True] * len(returns) if mask is None else mask
    # One shape for all, so that JAX compiles once; NaN where nothing is.
    empty = 8 - len(returns)
    values = np.array([[*returns, *[np.nan] * empty]], np.float32)
    present = np.array([[*mask, *[False] * empty]])
    layout = TreeLayout((8,))
    kept = credit.prune_intra(values, layout, present, num_turns=1, budget=budget)
    return np.flatnonzero(kept[0]).tolist()


@pytest.mark.parametrize(
    ("returns", "budget", "expected"),
    [
        ([1, 1, 0.75, 0.5, 0.5, 0.25, 0, 0], 4, [0, 1, 6, 7]),
        # One of each; of the three zeros the lowest slot.
        ([1, 0, 0, 0], 2, [0, 1]),
        ([0, 0, 1, 1], 2, [0, 2]),
        # {1, 0, 0} and {1, 1, 0} vary alike: the scan meets one high member first.
        ([1, 1, 0, 0], 3, [0, 2, 3]),
        ([0.2] * 4 + [0] * 4, 5, [0, 1, 4, 5, 6]),
        ([0.7] * 4 + [0] * 4, 5, [0, 1, 4, 5, 6]),
        # Nothing varies: the lowest slots.
        ([0.35] * 7, 3, [0, 1, 2]),
        ([0.1, 0.1 + 5e-8, 0.1, 0.1], 2, [0, 1]),
        # No single member varies: the scan starts with the lowest return.
        ([0.5, 1, 0.25, 0.25], 1, [2]),
        ([0.3, 0.2, 0.7], 3, [0, 1, 2]),
        ([0.3, 0.2, 0.7], 99, [0, 1, 2]),
        ([5000.5, 5000.0, 5000.25, 5001.0], 2, [1, 3]),
    ],
)
def test_intra(returns, budget, expected):
    assert flat(returns, budget) == expected


def test_intra_counts_present_members_only():
    returns = [np.nan, 1.0, 0.5, np.inf, 0.0]
    mask = [False, True, True, False, True]
    assert flat(returns, 3, mask) == [1, 2, 4]
    assert flat(returns, 2, mask) == [1, 4]


@pytest.mark.parametrize("seed", range(4))
def test_intra_finds_the_widest_subset(seed):
    generator = np.random.default_rng(seed)
    size, budget = 8, int(generator.integers(2, 7))
    returns = generator.normal(size=size).astype(np.float32)
    best = max(
        itertools.combinations(range(size), budget),
        key=lambda subset: returns[list(subset)].astype(np.float64).var(),
    )
    assert flat(returns, budget) == list(best)


def test_inter_keeps_the_widest_groups(form):
    layout = TreeLayout((3, 2))
    returns = np.array([[0, 0, 0, 0, 0.5, 1, 0, 0.25, 1]], np.float32)
    mask = np.ones((1, 9), bool)
    for budget, groups in [(1, [1]), (2, [1, 2]), (3, [0, 1, 2])]:
        kept = credit.prune_inter(
            returns, form(layout), mask, num_turns=2, budget=budget
        )
        expected = [True] * 3 + [g in groups for g in (0, 0, 1, 1, 2, 2)]
        np.testing.assert_array_equal(kept[0], expected)


def test_inter_ties_go_to_the_lower_slot(form):
    """One of three solved spreads as two of three: rounding may not decide."""
    layout = TreeLayout((4, 3))
    third = np.float32(1 / 3)
    children = [[0, 0, 0], [1, 1, 0], [0, 1, 0], [third, 0, 0]]
    returns = np.array([[0.0] * 4 + np.ravel(children).tolist()], np.float32)
    mask = np.ones(returns.shape, bool)
    kept = credit.prune_inter(returns, form(layout), mask, num_turns=2, budget=1)
    assert np.flatnonzero(kept[0]).tolist() == [0, 1, 2, 3, 7, 8, 9]


def test_inter_groups_of_one_spread_least_but_count(form):
    layout = TreeLayout((3, 2))
    returns = np.array([[0, 0, 0, 0.5, 0.5, 9, np.nan, 0, 1]], np.float32)
    mask = ~np.isnan(returns)
    mask[0, 3:5] = False  # the first group has no members and takes no place
    kept = credit.prune_inter(returns, form(layout), mask, num_turns=2, budget=1)
    assert np.flatnonzero(kept[0]).tolist() == [0, 1, 2, 7, 8]
    kept = credit.prune_inter(returns, form(layout), mask, num_turns=2, budget=2)
    assert np.flatnonzero(kept[0]).tolist() == [0, 1, 2, 5, 7, 8]


def test_inter_descendants_go_and_do_not_compete(form):
    layout = TreeLayout((2, 2, 2))
    returns = np.zeros((1, 14), np.float32)
    returns[0, 2:6] = [0, 0.5, 0, 1]  # the group of slot 1 spreads more
    returns[0, 6:14] = [0, 1, 0, 1, 0, 0.25, 0, 0.5]
    mask = np.ones((1, 14), bool)
    kept = credit.prune_inter(returns, form(layout), mask, num_turns=3, budget=1)
    # Groups of slots 2 and 3 spread most in turn 3, but their parents are gone.
    assert np.flatnonzero(kept[0]).tolist() == [0, 1, 4, 5, 12, 13]


def test_intra_descendants_go(form):
    layout = TreeLayout((3, 1, 1))
    returns = np.array([[1, 0.5, 0, 1, 1, 0, 1, 1, 0]], np.float32)
    mask = np.ones((1, 9), bool)
    kept = credit.prune_intra(returns, form(layout), mask, num_turns=3, budget=2)
    np.testing.assert_array_equal(kept[0], [True, False, True] * 3)


def test_descendants_go_across_an_absent_node():
    layout = TreeLayout((3, 1, 1))
    returns = np.array([[1, 0.5, 0, 1, 1, 0, 1, 1, 0]], np.float32)
    mask = np.ones((1, 9), bool)
    mask[0, 4] = False
    kept = credit.prune_intra(returns, layout, mask, num_turns=3, budget=2)
    np.testing.assert_array_equal(kept[0], [True, False, True] * 3)


def test_nothing_present(rule):
    layout = TreeLayout((3, 2))
    returns, mask = np.full((2, 9), np.nan, np.float32), np.zeros((2, 9), bool)
    assert not np.any(rule(returns, layout, mask, num_turns=2, budget=1))


def random_forest(seed):
    generator = np.random.default_rng(seed)
    layout = TreeLayout((4, 3, 2))
    mask = generator.random((3, layout.num_nodes)) < 0.8
    for node, parent in enumerate(layout.parents):
        if parent >= 0:
            mask[:, node] &= mask[:, parent]
    returns = generator.choice([0, 0.1, 0.35, 1 / 3, 1], mask.shape)
    return layout, np.where(mask, returns, np.nan).astype(np.float32), mask


def test_layout_arrays_jit_and_vmap_agree(rule):
    layout, returns, mask = random_forest(0)
    shared = np.array(layout.parents)
    expected = rule(returns, layout, mask, num_turns=3, budget=2)
    assert expected.dtype == bool
    assert not np.any(np.asarray(expected) & ~mask)
    junk = np.where(mask, shared[None], 10**6).astype(np.int32)
    for parents in (shared, junk):
        kept = rule(returns, parents, mask, num_turns=3, budget=2)
        np.testing.assert_array_equal(kept, expected)

    def with_layout(returns, mask):
        return rule(returns, layout, mask, num_turns=3, budget=2)

    def with_parents(returns, parents, mask):
        return rule(returns, parents, mask, num_turns=3, budget=2)

    two = np.stack([returns, returns]), np.stack([mask, mask])
    mapped = jax.jit(jax.vmap(with_layout))(*two)
    np.testing.assert_array_equal(mapped[1], expected)
    mapped = jax.jit(jax.vmap(with_parents))(two[0], np.stack([junk, junk]), two[1])
    np.testing.assert_array_equal(mapped[0], expected)


def test_debug_nans(rule):
    layout, returns, mask = random_forest(1)
    with jax.debug_nans(True):
        returns = np.where(mask, returns, 1e30).astype(np.float32)
        jax.jit(lambda r, m: rule(r, layout, m, num_turns=3, budget=2))(returns, mask)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True])
def test_budget(rule, budget):
    ones = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"budget must be an integer >= 1.*got"):
        rule(ones, TreeLayout((2,)), ones > 0, num_turns=1, budget=budget)
