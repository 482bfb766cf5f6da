"""Surrogates, KL and token weights: by hand, against the oracle, and at the edges."""

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
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)

LOG_PROBS = st.floats(-25.0, 0.0, width=32)
REDUCTIONS = ["token", "response", "constant", "group"]


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def ragged(*values):
    return np.array(values, np.float32)


# --- surrogates ----------------------------------------------------------------------


def test_reinforce_by_hand():
    log_probs, old = ragged(-1.0, -2.0, -0.5), ragged(-9.0, 0.0, -0.5)
    loss = objective.reinforce(log_probs, old, ragged(2.0, -1.0, 0.0))
    close(loss, [2.0, -2.0, 0.0])


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),  # on policy: the policy gradient, unclipped
        (1.1, 1.0, -1.1, -1.1),
        (1.5, 1.0, -1.28, 0.0),  # enough gained
        (0.5, 1.0, -0.5, -0.5),  # worse than before: pulled back without bound
        (0.5, -1.0, 0.8, 0.0),  # enough lowered
        (1.5, -1.0, 1.5, 1.5),
        (5.0, -1.0, 3.0, 0.0),  # dual clip
        (5.0, 1.0, -1.28, 0.0),
        (1.5, 0.0, 0.0, 0.0),
    ],
)
def test_clip_by_hand(ratio, advantage, expected, slope):
    def loss(log_prob):
        return objective.clip(
            log_prob,
            jnp.float32(-1.0),
            jnp.float32(advantage),
            clip_low=0.2,
            clip_high=0.28,
            dual_clip=3.0,
        )

    log_prob = jnp.float32(np.log(ratio) - 1.0)
    close(loss(log_prob), expected)
    close(jax.grad(loss)(log_prob), slope)


def test_clip_defaults():
    log_probs, old = np.log(ragged(1.5, 0.5, 5.0)), ragged(0.0, 0.0, 0.0)
    loss = objective.clip(log_probs, old, ragged(1.0, -1.0, -1.0))
    close(loss, [-1.2, 0.8, 5.0])


@checked
@given(
    st.lists(
        st.tuples(LOG_PROBS, LOG_PROBS, st.floats(-3.0, 3.0, width=32)),
        min_size=8,
        max_size=8,
    ),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.sampled_from([0.0, 0.28]),
    st.sampled_from([None, 3.0]),
)
def test_surrogates_and_k3(tokens, clip_low, clip_high, dual_clip):
    log_probs, old, advantages = np.array(tokens, np.float32).T.reshape(3, 2, 4)
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    rules = [
        (objective.reinforce, oracle.reinforce, (log_probs, old, advantages)),
        (
            functools.partial(objective.clip, **options),
            functools.partial(oracle.clip, **options),
            (log_probs, old, advantages),
        ),
        (objective.k3, oracle.k3, (log_probs, old)),
    ]
    for rule, slow, arrays in rules:
        actual = rule(*arrays)
        assert actual.dtype == jnp.float32
        wide = [array.astype(np.float64) for array in arrays]
        expected = np.vectorize(slow, otypes=[float])(*wide)
        # exp turns an absolute error of the log-ratio (25 * 2^-24) into a relative one.
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
def test_any_shape(shape):
    log_probs = np.full(shape, -1.0, np.float32)
    for loss in (
        objective.reinforce(log_probs, log_probs, log_probs),
        objective.clip(log_probs, log_probs, log_probs),
        objective.k3(log_probs, log_probs),
    ):
        assert loss.shape == shape


@pytest.mark.parametrize("log_ratio", [1e4, -1e4, 100.0, -100.0, 20.5])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_wild_ratios_stay_finite(log_ratio, advantage):
    old = jnp.float32(0.0)
    log_prob = jnp.float32(log_ratio)
    rules = [
        lambda x: objective.reinforce(x, old, jnp.float32(advantage)),
        lambda x: objective.clip(x, old, jnp.float32(advantage)),
        lambda x: objective.clip(x, old, jnp.float32(advantage), dual_clip=3.0),
        lambda x: objective.k3(x, old),
        lambda x: objective.k3(old, x),
    ]
    for rule in rules:
        value, slope = jax.value_and_grad(rule)(log_prob)
        assert np.isfinite(value)
        assert np.isfinite(slope)
    expected = oracle.clip(log_ratio, 0.0, advantage)
    close(objective.clip(log_prob, old, jnp.float32(advantage)), expected, 1e-4)


def test_k3_sign_and_gradient():
    # The reference likes the token more (ref > logp): lowering logp costs more.
    close(objective.k3(ragged(-2.0), ragged(-1.0)), [np.e - 2.0])
    close(objective.k3(ragged(-1.0), ragged(-2.0)), [np.exp(-1.0)])
    close(objective.k3(ragged(-1.5), ragged(-1.5)), [0.0], 0.0)
    slope = jax.grad(lambda x: objective.k3(x, jnp.float32(-1.0)))(jnp.float32(-2.0))
    close(slope, 1.0 - np.e)


def test_k3_is_never_negative():
    differences = np.linspace(-1e-3, 1e-3, 2001, dtype=np.float32)
    estimates = objective.k3(np.zeros_like(differences), differences)
    assert np.all(np.asarray(estimates) >= 0.0)
    assert np.all(np.asarray(objective.k3(ragged(0.0, 0.0), ragged(1e9, -1e9))) >= 0.0)


def test_old_and_reference_are_only_subtracted():
    """A shift of both sides changes no ratio."""
    log_probs, old = ragged(-1.0, -2.0), ragged(-1.25, -1.5)
    advantages = ragged(1.0, -1.0)
    close(
        objective.clip(log_probs, old, advantages),
        objective.clip(log_probs - 2.0, old - 2.0, advantages),
    )
    close(objective.k3(log_probs, old), objective.k3(log_probs - 2.0, old - 2.0))


# --- token weights -------------------------------------------------------------------

LENGTHS = np.array([[1, 3, 4, 99], [2, -7, 2, 5]], np.int32)
MASK = np.array([[True, True, True, False], [True, False, True, True]])
GROUPS = np.array([[0, 0, 1, 1], [0, 7, 0, 0]], np.int32)
# 6 responses, 17 tokens, groups {1, 3}, {4} in row 0 and {2, 2, 5} in row 1.


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("token", np.array([[1, 1, 1, 0], [1, 0, 1, 1]]) / 17),
        ("response", np.array([[1, 1 / 3, 1 / 4, 0], [1 / 2, 0, 1 / 2, 1 / 5]]) / 6),
        ("constant", np.array([[1, 1, 1, 0], [1, 0, 1, 1]]) / (6 * 8)),
        (
            "group",
            np.array([[1 / 2, 1 / 6, 1 / 4, 0], [1 / 6, 0, 1 / 6, 1 / 15]]) / 3,
        ),
    ],
)
def test_weights_by_hand(reduction, expected):
    for rules in (objective, oracle):
        weights = rules.token_weights(reduction, LENGTHS, MASK, GROUPS, max_length=8)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
    weights = objective.token_weights(reduction, LENGTHS, MASK, GROUPS, max_length=8)
    assert weights.dtype == np.float32


@st.composite
def batches(draw):
    rows, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 5))

    def table(values, shape=(rows, nodes)):
        size = int(np.prod(shape))
        drawn = draw(st.lists(values, min_size=size, max_size=size))
        return np.reshape(drawn, shape)

    mask = table(st.booleans())
    lengths = table(st.integers(1, 40))
    junk = draw(st.sampled_from([0, -3, 10**6]))
    lengths = np.where(mask, lengths, junk).astype(np.int32)
    if draw(st.booleans()):
        groups = table(st.integers(0, 3), (nodes,)).astype(np.int32)
    else:
        groups = table(st.integers(0, 3))
        groups = np.where(mask, groups, draw(st.sampled_from([-1, 10**6])))
        groups = groups.astype(np.int32)
    return lengths, mask, groups


@checked
@given(batches(), st.sampled_from(REDUCTIONS), st.sampled_from([None, 7.0]))
def test_weights_against_oracle(batch, reduction, total):
    options = {"max_length": 64, "total": total}
    weights = np.asarray(objective.token_weights(reduction, *batch, **options))
    expected = oracle.token_weights(reduction, *batch, **options)
    assert weights.shape == batch[1].shape
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_array_equal(weights[~batch[1]], 0.0)


@checked
@given(batches(), st.sampled_from(["token", "response", "group"]))
def test_weights_of_all_tokens_sum_to_one(batch, reduction):
    """The loss is a mean: equal token losses come out unchanged."""
    lengths, mask, _ = batch
    weights = objective.token_weights(reduction, *batch)
    expected = 1.0 if mask.any() else 0.0
    np.testing.assert_allclose(
        np.sum(weights * np.where(mask, lengths, 0)), expected, rtol=1e-5
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_all_absent(reduction):
    nothing = np.zeros_like(MASK)
    weights = objective.token_weights(reduction, LENGTHS, nothing, GROUPS, max_length=8)
    np.testing.assert_array_equal(weights, np.zeros(MASK.shape))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_parts_of_a_batch_add_up(reduction):
    """Rows weighed apart under the whole batch's total are the rows of the whole."""
    total = {"token": 17, "response": 6, "constant": 6, "group": 3}[reduction]
    weigh = functools.partial(objective.token_weights, reduction, max_length=8)
    whole = weigh(LENGTHS, MASK, GROUPS)
    for b in range(2):
        part = weigh(
            LENGTHS[b : b + 1], MASK[b : b + 1], GROUPS[b : b + 1], total=total
        )
        np.testing.assert_allclose(part[0], whole[b], rtol=1e-6)


def test_unknown_reduction():
    valid = ".*".join(REDUCTIONS)
    with pytest.raises(ValueError, match=rf"reduction.*{valid}.*'mean'"):
        objective.token_weights("mean", LENGTHS, MASK, GROUPS)


@pytest.mark.parametrize("max_length", [None, 0, -1])
def test_constant_needs_max_length(max_length):
    with pytest.raises(ValueError, match="max_length"):
        objective.token_weights(
            "constant", LENGTHS, MASK, GROUPS, max_length=max_length
        )
