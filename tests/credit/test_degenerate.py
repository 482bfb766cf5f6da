"""Groups without a signal give exactly 0, and nothing becomes NaN on the way."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

BASELINES = ["mean", "leave_one_out"]
SCALES = ["std", "mean", "none"]

RULES = {
    "grpo": credit.grpo,
    "reapo": credit.reapo,
    "mars": functools.partial(credit.murphy, num_turns=2),
    "mers": functools.partial(credit.murphy, num_turns=2, backup="mers"),
    "rloo": credit.rloo,
    "maxrl": credit.maxrl,
    "cal_grpo": functools.partial(credit.cal_grpo, num_turns=2),
    "multi_attempt_grpo": functools.partial(credit.multi_attempt_grpo, num_turns=2),
}


@pytest.fixture(autouse=True)
def nan_is_an_error():
    with jax.debug_nans(True):
        yield


@pytest.fixture(params=["eager", "jit", "vmap"])
def lifted(request):
    """Calls f(values, mask) plainly, compiled, or mapped over a doubled batch."""

    def call(function, values, mask):
        values, mask = jnp.asarray(values), jnp.asarray(mask)
        if request.param == "eager":
            return np.asarray(function(values, mask))
        if request.param == "jit":
            return np.asarray(jax.jit(function)(values, mask))
        doubled = jax.jit(jax.vmap(function))(
            jnp.stack([values, values]), jnp.stack([mask, mask])
        )
        np.testing.assert_array_equal(doubled[0], doubled[1])
        return np.asarray(doubled[0])

    return call


@pytest.fixture
def compiled():
    return lambda function, values, mask: np.asarray(jax.jit(function)(values, mask))


def zero(actual, shape):
    """Exactly 0; -0.0 passes."""
    assert actual.shape == shape
    np.testing.assert_array_equal(actual, 0.0)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("ddof", [0, 1])
def test_equal_groups(baseline, scale, ddof):
    rows = [[1.0] * 4, [0.0] * 4, [0.35] * 7, [0.1] * 3, [1e4 / 3] * 7, [0.7]]
    returns, mask = np.full((6, 7), -3.0, np.float32), np.zeros((6, 7), bool)
    for b, row in enumerate(rows):
        returns[b, : len(row)], mask[b, : len(row)] = row, True
    rule = functools.partial(
        credit.group_advantages, baseline=baseline, scale=scale, ddof=ddof
    )
    zero(rule(returns, np.zeros(7, np.int32), mask), mask.shape)


def test_last_bit_differences_are_equal():
    tenth = np.float32(0.1)
    values = [[tenth, np.nextafter(tenth, np.float32(1)), tenth, tenth]]
    rule = functools.partial(credit.group_advantages, epsilon=1e-8)
    ids = np.zeros(4, np.int32)
    mask = np.ones((1, 4), bool)
    zero(rule(np.array(values), ids, mask), (1, 4))


def test_spread_just_above_the_threshold_is_a_signal():
    values = jnp.array([[0.5, 0.5 + 3e-6]], jnp.float32)
    mask = jnp.ones((1, 2), bool)
    advantages = credit.grpo(values, np.full(2, -1, np.int32), mask, epsilon=1e-12)
    np.testing.assert_allclose(advantages, [[-(0.5**0.5), 0.5**0.5]], rtol=1e-3)


def test_threshold_is_relative_to_large_returns():
    # The spread 1e-3 is below 1e-6 * 4096 though far above 1e-6.
    values = jnp.array([[4096.0, 4096.0009765625]], jnp.float32)
    mask = jnp.ones((1, 2), bool)
    zero(credit.grpo(values, np.full(2, -1, np.int32), mask), (1, 2))


def test_without_baseline_nothing_is_compared():
    """Plain REINFORCE keeps R: zeroing its equal groups would bias the estimator."""
    returns = jnp.array([[0.5, 0.5, 0.5, 1.0]], jnp.float32)
    ids = np.array([0, 0, 0, 1], np.int32)
    mask = jnp.ones((1, 4), bool)
    plain = credit.group_advantages(returns, ids, mask, baseline="none", scale="none")
    np.testing.assert_array_equal(plain, returns)
    over_mean = credit.group_advantages(
        returns, ids, mask, baseline="none", scale="mean"
    )
    np.testing.assert_allclose(over_mean, np.ones((1, 4)), atol=1e-5)
    over_std = credit.group_advantages(returns, ids, mask, baseline="none")
    zero(over_std, (1, 4))


@pytest.mark.parametrize("name", RULES)
def test_trees_without_signal(name, lifted):
    layout = TreeLayout(branching=(7, 2))
    shape = (3, layout.num_nodes)
    rewards, mask = np.full(shape, -1e30, np.float32), np.zeros(shape, bool)
    # All equal (under MeRS the roots then share a return that is not 0.35) ...
    rewards[0], mask[0] = 0.35, True
    # ... all solved at once, so nobody has children; and nothing present.
    rewards[1, :7], mask[1, :7] = 1.0, True
    zero(lifted(lambda r, m: RULES[name](r, layout, m), rewards, mask), shape)


def test_nothing_present_has_no_returns(compiled):
    layout = TreeLayout(branching=(3, 2))
    rewards = np.full((2, layout.num_nodes), 1e30, np.float32)
    mask = np.zeros(rewards.shape, bool)
    for rule in (credit.mars, credit.mers):
        backup = functools.partial(rule, parents=layout, num_turns=2)
        returns = compiled(lambda r, m, f=backup: f(r, node_mask=m), rewards, mask)
        zero(returns, mask.shape)


@pytest.mark.parametrize("name", ["grpo", "mars", "mers"])
def test_groups_of_one(name, compiled):
    layout = TreeLayout(branching=(1, 1))
    rewards = np.array([[0.25, 1.0], [1.0, 0.0]], np.float32)
    mask = np.array([[True, True], [True, False]])
    zero(compiled(lambda r, m: RULES[name](r, layout, m), rewards, mask), (2, 2))


def test_groups_thinned_to_one(compiled):
    """The absent members are no members, whatever value they hold."""
    rewards = np.array([[1.0, -5.0, 7.0]], np.float32)
    mask = np.array([[True, False, False]])
    roots = np.full(3, -1, np.int32)
    zero(compiled(lambda r, m: credit.grpo(r, roots, m), rewards, mask), (1, 3))
    zero(compiled(lambda r, m: credit.reapo(r, roots, m), rewards, mask), (1, 3))


@pytest.mark.parametrize("kind", ["layout", "array"])
def test_same_child_rewards_in_another_order(kind, compiled):
    """Sums in another order differ in the last bit; eps would blow that up."""
    layout = TreeLayout(branching=(6, 3))
    parents = layout if kind == "layout" else jnp.asarray(layout.parents)
    orders = list(itertools.permutations([0.1, 0.7, 0.35]))
    rewards = np.concatenate([[0.3] * 6, np.ravel(orders)])[None].astype(np.float32)
    mask = np.ones(rewards.shape, bool)
    advantages = compiled(
        lambda r, m: credit.murphy(r, parents, m, num_turns=2, backup="mers"),
        rewards,
        mask,
    )
    np.testing.assert_array_equal(advantages[:, :6], 0.0)
    assert np.all(np.abs(advantages[:, 6:]) > 0.01)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ["layout", "array"])
def test_gradients_are_finite(name, kind):
    """sqrt has no slope at a variance of 0: that must not reach the rewards."""
    layout = TreeLayout(branching=(3, 2))
    parents = layout if kind == "layout" else jnp.asarray(layout.parents)
    equal, absent = np.full(9, 0.35), np.full(9, 1e30)
    mixed = np.linspace(0.0, 1.0, 9)
    rewards = np.stack([equal, absent, mixed, mixed]).astype(np.float32)
    mask = np.ones(rewards.shape, bool)
    mask[1] = False
    mask[3, 3:6] = False
    slopes = jnp.arange(1.0, 10.0)[None]

    def weighted(values):
        return jnp.sum(slopes * RULES[name](values, parents, mask))

    gradient = jax.jit(jax.grad(weighted))(rewards)
    assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(np.asarray(gradient)[~mask], 0.0)
    np.testing.assert_array_equal(gradient[0], 0.0)
    assert np.any(np.asarray(gradient)[2] != 0.0)
