"""GSPO, CISPO, truncated importance weights: ratios of tokens and of responses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rlvr_jax import objective
from tests.objective import oracle

checked = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)

LOG_PROBS = st.floats(-25.0, 0.0, width=32)


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@st.composite
def responses(draw):
    """(log_probs, old, advantages, ids, mask): responses lie anywhere in a row."""
    shape = (draw(st.integers(1, 3)), 7)
    size = int(np.prod(shape))

    def table(values, kind):
        drawn = draw(st.lists(values, min_size=size, max_size=size))
        return np.array(drawn, kind).reshape(shape)

    ids = table(st.integers(0, 2), np.int32)
    per_response = np.array([1.5, -0.5, -2.0], np.float32)
    mask = table(st.booleans(), bool)
    log_probs, old = (table(LOG_PROBS, np.float32) for _ in range(2))
    return log_probs, old, per_response[ids], ids, mask


@checked
@given(responses(), st.sampled_from([None, 3.0]))
def test_gspo_against_whole_responses(batch, dual_clip):
    log_probs, old, advantages, ids, mask = batch
    bounds = {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": dual_clip}
    loss = objective.gspo(*batch, **bounds)
    assert loss.dtype == jnp.float32
    expected = np.zeros(mask.shape)
    for row, response in {(r, ids[r, k]) for r, k in np.argwhere(mask)}:
        here = mask[row] & (ids[row] == response)
        expected[row, here] = oracle.gspo(
            log_probs[row, here].astype(float),
            old[row, here].astype(float),
            float(advantages[row, here][0]),
            **bounds,
        )
    np.testing.assert_allclose(loss, expected, rtol=2e-5, atol=2e-6)


def sequence_loss(log_probs, old, advantages, ids, mask, *, num_responses=2):
    """The paper's objective, differentiated by JAX: the mean over the responses."""
    total = 0.0
    for response in range(num_responses):
        here = mask & (ids == response)
        length = here.sum()
        ratio = jnp.exp(jnp.where(here, log_probs - old, 0.0).sum() / length)
        advantage = jnp.where(here, advantages, 0.0).sum() / length
        clipped = jnp.clip(ratio, 0.8, 1.2)
        total -= jnp.minimum(ratio * advantage, clipped * advantage)
    return total / num_responses


@pytest.mark.parametrize("shift", [0.0, 0.5, -0.5])
def test_gspo_has_the_gradient_of_the_loss_of_responses(shift):
    """Both are clipped, one is, or none; NaN and wild ids stand where nothing is."""
    ids = np.array([[0, 0, 0, 1, 1, 99]])
    mask = np.array([[True, True, True, True, True, False]])
    log_probs = jnp.array([[-1.0, -2.0, -0.5, -1.0, -3.0, jnp.nan]])
    old = log_probs - shift - jnp.array([[0.1, -0.2, 0.0, 0.3, -0.1, 0.0]])
    advantages = jnp.array([[1.0, 1.0, 1.0, -2.0, -2.0, jnp.nan]])
    weights = np.array([[1 / 6] * 3 + [1 / 4] * 2 + [0.0]])

    def loss(log_probs):
        bounds = {"clip_low": 0.2, "clip_high": 0.2}
        tokens = objective.gspo(log_probs, old, advantages, ids, mask, **bounds)
        return (weights * tokens).sum()

    value, slope = jax.value_and_grad(loss)(log_probs)
    clean = [jnp.where(mask, x, 0.0) for x in (log_probs, old, advantages)]
    expected, its_slope = jax.value_and_grad(sequence_loss)(*clean, ids, mask)
    close(value, expected)
    close(slope, its_slope)
    assert slope[0, -1] == 0


def test_gspo_defaults_are_the_papers():
    ones = np.ones((1, 1), np.float32)
    for ratio, advantage, expected in [(1.001, 1.0, -1.0004), (0.99, -1.0, 0.9997)]:
        arrays = (np.log(ratio) * ones, 0 * ones, advantage * ones)
        loss = objective.gspo(*arrays, np.zeros((1, 1), int), ones > 0)
        close(loss, [[expected]], 1e-7)


@checked
@given(
    st.lists(
        st.tuples(LOG_PROBS, LOG_PROBS, st.floats(-3.0, 3.0, width=32)),
        min_size=8,
        max_size=8,
    ),
    st.sampled_from([0.0, 0.28, 4.0]),
)
def test_cispo_and_the_divergences(tokens, clip_high):
    log_probs, old, advantages = np.array(tokens, np.float32).T.reshape(3, 2, 4)
    rules = [
        (
            functools.partial(objective.cispo, clip_high=clip_high),
            functools.partial(oracle.cispo, clip_high=clip_high),
            (log_probs, old, advantages),
        ),
        (objective.k1, oracle.k1, (log_probs, old)),
        (objective.k2, oracle.k2, (log_probs, old)),
    ]
    for rule, slow, arrays in rules:
        actual = rule(*arrays)
        assert actual.dtype == jnp.float32
        wide = [array.astype(np.float64) for array in arrays]
        expected = np.vectorize(slow, otypes=[float])(*wide)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 1.0, -1.1),
        (3.0, 1.0, -1.5),  # bounded, and still a gradient
        (3.0, -1.0, 1.5),
        (0.1, 1.0, -0.1),  # no bound below
        (0.1, -1.0, 0.1),
    ],
)
def test_cispo_bounds_the_weight_and_keeps_the_gradient(ratio, advantage, slope):
    def loss(log_prob):
        old, signal = jnp.float32(-1.0), jnp.float32(advantage)
        return objective.cispo(log_prob, old, signal, clip_high=0.5)

    close(jax.grad(loss)(jnp.float32(np.log(ratio) - 1.0)), slope)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("log_ratio", [1e4, -1e4, 20.5])
def test_wild_ratios_of_gspo_and_cispo_stay_finite(log_ratio, advantage):
    ones, log_prob = jnp.ones((1, 1)), jnp.full((1, 1), log_ratio)
    rules = [
        lambda x: objective.cispo(x, 0 * ones, advantage * ones),
        lambda x: objective.gspo(
            x, 0 * ones, advantage * ones, jnp.zeros((1, 1), int), ones > 0
        ),
        lambda x: objective.k2(x, 0 * ones),
    ]
    for rule in rules:
        value, slope = jax.value_and_grad(lambda x, f=rule: f(x).sum())(log_prob)
        assert np.isfinite(value) and np.isfinite(slope).all()


# --- truncated importance weights ----------------------------------------------------


@checked
@given(responses(), st.sampled_from([0.5, 2.0]))
def test_importance_weights_against_oracle(batch, cap):
    old, behavior, _, ids, mask = batch
    dirty = np.where(mask, behavior, np.nan)
    arrays = (old, dirty, np.where(mask, ids, 77), mask)
    for level in ("token", "response"):
        weights = objective.truncated_importance_weights(*arrays, level=level, cap=cap)
        assert weights.dtype == jnp.float32
        for row, place in np.argwhere(mask):
            here = np.arange(mask.shape[1]) == place
            if level == "response":
                here = mask[row] & (ids[row] == ids[row, place])
            expected = oracle.importance_weight(
                old[row, here].astype(float), behavior[row, here].astype(float), cap
            )
            np.testing.assert_allclose(weights[row, place], expected, rtol=2e-5)
        np.testing.assert_array_equal(np.asarray(weights)[~mask], min(1.0, cap))
    plain = objective.truncated_importance_weights(*arrays, level="none", cap=cap)
    np.testing.assert_array_equal(plain, np.ones(mask.shape))


def test_importance_weights_carry_no_gradient():
    ids, mask = jnp.zeros((1, 2), int), jnp.ones((1, 2), bool)
    behavior = jnp.array([[-1.0, -1.5]])
    for level in ("token", "response"):
        slope = jax.grad(
            lambda x, level=level: objective.truncated_importance_weights(
                x, behavior, ids, mask, level=level
            ).sum()
        )(jnp.array([[-1.2, -1.4]]))
        np.testing.assert_array_equal(slope, np.zeros((1, 2)))


# --- sums over responses -------------------------------------------------------------


def test_response_sums_stay_in_their_row_and_response():
    values = np.array([[1, 2, 4], [8, 16, 32]], np.float32)
    ids = np.array([[0, 2, 0], [0, 0, 5]], np.int32)
    mask = np.array([[True, True, True], [True, True, False]])
    sums = objective.response_sums(values, ids, mask)
    close(sums, [[5, 2, 5], [24, 24, 0]])
    means = objective.response_means(values, ids, mask)
    close(means, [[2.5, 2, 2.5], [12, 12, 0]])
