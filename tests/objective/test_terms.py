"""KL estimates, entropy, lengths, and what no function of the objective accepts."""

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


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def test_k1_reports_and_has_no_gradient():
    value, slope = jax.value_and_grad(objective.k1)(jnp.float32(-1), jnp.float32(-3))
    assert (value, slope) == (2.0, 0.0)
    # k2 pulls towards the reference from both sides.
    for log_prob, expected in [(-1.0, 2.0), (-5.0, -2.0)]:
        slope = jax.grad(objective.k2)(jnp.float32(log_prob), jnp.float32(-3.0))
        close(slope, expected)


@checked
@given(
    st.lists(st.floats(-30.0, 30.0, width=32), min_size=2, max_size=9),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_entropy_against_oracle(logits, temperature):
    actual = objective.entropy(np.array(logits, np.float32), temperature)
    expected = oracle.entropy(logits, temperature)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_entropy_of_what_cannot_be():
    logits = jnp.array([[0.0, -jnp.inf, 0.0], [5.0, -jnp.inf, -jnp.inf]])
    close(objective.entropy(logits), [np.log(2.0), 0.0])
    slope = jax.grad(lambda x: objective.entropy(x).sum())(logits)
    assert np.isfinite(np.asarray(slope)).all()


def test_overlong_penalty_against_the_three_cases():
    lengths = np.arange(0, 30).reshape(5, 6)
    for max_length, buffer in [(20, 5), (20, 20), (20, 1), (1, 1)]:
        penalty = objective.overlong_penalty(
            lengths, max_length=max_length, buffer=buffer
        )
        expected = np.vectorize(oracle.overlong_penalty, otypes=[float])(
            lengths, max_length, buffer
        )
        assert penalty.dtype == np.float32 and penalty.shape == lengths.shape
        np.testing.assert_allclose(penalty, expected, rtol=1e-6)
        assert not np.signbit(penalty[penalty == 0]).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i, m: objective.clip(x, x, x, clip_low=2), r"clip_low must be in"),
        (
            lambda x, i, m: objective.clip(x, x, x, dual_clip=1),
            r"dual_clip must .*got 1",
        ),
        (
            lambda x, i, m: objective.cispo(x, x, x, clip_high=-1),
            r"clip_high must be 0",
        ),
        (
            lambda x, i, m: objective.gspo(x, x, x, i, m, clip_high=-1),
            r"clip_high must",
        ),
        (lambda x, i, m: objective.gspo(x, x, x, i, x), r"mask must be bool.*float32"),
        (lambda x, i, m: objective.gspo(x, x, x, x, m), r"response_id must hold integ"),
        (
            lambda x, i, m: objective.response_sums(x, i[0], m),
            r"response_id must have the shape of mask \(1, 2\); got \(2,\)",
        ),
        (
            lambda x, i, m: objective.response_sums(x, i + 1, m),
            r"response_id must be in \[0, 2\) where mask is True; got 2",
        ),
        (
            lambda x, i, m: objective.response_sums(x[0], i, m),
            r"values must have the shape of mask",
        ),
        (
            lambda x, i, m: objective.response_sums(x[0], i[0], m[0]),
            r"mask must be \[R, K\]; got shape \(2,\)",
        ),
        (
            lambda x, i, m: objective.truncated_importance_weights(
                x, x, i, m, level="sequence"
            ),
            r"level must be one of .*'response'.*got 'sequence'",
        ),
        (
            lambda x, i, m: objective.truncated_importance_weights(x, x, i, m, cap=0),
            r"cap must be above 0; got 0",
        ),
        (
            lambda x, i, m: objective.truncated_importance_weights(x, x[0], i, m),
            r"behavior_log_probs must have the shape of mask",
        ),
        (
            lambda x, i, m: objective.overlong_penalty(i, max_length=0, buffer=1),
            r"max_length must be 1 or more tokens; got 0",
        ),
        (
            lambda x, i, m: objective.overlong_penalty(i, max_length=4, buffer=5),
            r"buffer must be between 1 and max_length 4 tokens; got 5",
        ),
        (
            lambda x, i, m: objective.token_weights("token", i, i, i),
            r"node_mask must be bool.*got dtype int",
        ),
        (
            lambda x, i, m: objective.token_weights("token", x, m, i),
            r"response_lengths must hold integers; got dtype float32",
        ),
        (
            lambda x, i, m: objective.token_weights("token", i[0], m, i),
            r"response_lengths must have the shape of node_mask \(1, 2\); got \(2,\)",
        ),
        (
            lambda x, i, m: objective.token_weights("token", i, m, i[:, :1]),
            r"groups must be \[N\] or \[B, N\] .*got shape \(1, 1\)",
        ),
        (
            lambda x, i, m: objective.token_weights("token", i, m, x),
            r"groups must hold integers; got dtype float32",
        ),
        (
            lambda x, i, m: objective.token_weights("token", i[0], m[0], i[0]),
            r"node_mask must be \[B, N\]; got shape \(2,\)",
        ),
    ],
)
def test_bad_input(call, message):
    ones = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match=message):
        call(ones, ones.astype(np.int32), ones > 0)
