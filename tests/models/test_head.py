"""Log-probabilities of targets in chunks against a plain log-softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import models
from tests.models.tiny import tiny_config, tiny_model

ROWS, LENGTH, COUNT = 2, 9, 7


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def case(request):
    model, params = tiny_model(tiny_config(tied=request.param))
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(ROWS, LENGTH, 32)).astype(np.float32)
    # Not in order and with repeats: siblings are predicted from one shared token.
    source = rng.integers(0, LENGTH, (ROWS, COUNT)).astype(np.int32)
    target = rng.integers(0, 61, (ROWS, COUNT)).astype(np.int32)
    return model, params, hidden, source, target


def naive(model, params, hidden, source, target, temperature):
    head = params["embed"].T if model.config.tied else params["head"]
    rows = np.arange(ROWS)[:, None]
    scores = jax.nn.log_softmax(hidden[rows, source] @ head / temperature)
    picked = scores[rows, np.arange(COUNT)[None], target]
    return picked, -jnp.sum(jnp.exp(scores) * scores, axis=-1)


@pytest.mark.parametrize("chunk", [3, 256])
def test_values_and_gradients_equal_log_softmax(case, chunk):
    model, params, hidden, source, target = case
    probe = np.random.default_rng(1).normal(size=(2, ROWS, COUNT)).astype(np.float32)

    def loss(function):
        def of(params, hidden, temperature):
            out = function(model, params, hidden, source, target, temperature)
            return jnp.sum(out[0] * probe[0] + out[1] * probe[1]), out

        run = jax.jit(jax.value_and_grad(of, argnums=(0, 1), has_aux=True))
        return run(params, hidden, 0.7)

    (_, out), gradients = loss(
        lambda *a: models.target_log_probs(*a, chunk=chunk),
    )
    (_, expected), expected_gradients = loss(naive)
    np.testing.assert_allclose(out[0], expected[0], atol=2e-5)
    np.testing.assert_allclose(out[1], expected[1], atol=2e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=5e-5),
        gradients,
        expected_gradients,
    )


def test_log_probs_are_never_positive_and_extremes_stay_finite(case):
    model, params, hidden, source, target = case

    @jax.jit
    def run(hidden, ids):
        return models.target_log_probs(model, params, hidden, source, ids, 1.0)

    for scale in (1.0, 1e3, 1e6):
        logits = models.head_logits(model, params, hidden * scale)
        best = logits.argmax(-1)[np.arange(ROWS)[:, None], source]
        for ids in (target, best):
            log_probs, entropy = run(hidden * scale, ids)
            assert (log_probs <= 0).all() and np.isfinite(log_probs).all()
            assert (entropy >= 0).all() and (entropy <= np.log(61) + 1e-5).all()


def test_entropy_of_a_flat_head_is_log_of_the_vocabulary(case):
    model, params, hidden, source, target = case
    _, entropy = models.target_log_probs(model, params, hidden * 0, source, target, 1.0)
    np.testing.assert_allclose(entropy, np.log(61), rtol=1e-6)


def test_junk_in_padding_changes_nothing_else(case):
    model, params, hidden, source, target = case

    def loss(hidden, source, target):
        log_probs, _ = models.target_log_probs(
            model, params, hidden, source, target, 1.0, chunk=4
        )
        return jnp.where(np.arange(COUNT)[None] < 5, log_probs, 0.0).sum()

    junk_source, junk_target = source.copy(), target.copy()
    junk_source[:, 5:], junk_target[:, 5:] = 10**6, -(10**6)
    run = jax.jit(jax.value_and_grad(loss))
    clean = run(hidden, source, target)
    junk = run(hidden, junk_source, junk_target)
    np.testing.assert_array_equal(clean[0], junk[0])
    np.testing.assert_array_equal(clean[1], junk[1])


def test_another_temperature_compiles_nothing(case):
    model, params, hidden, source, target = case
    run = jax.jit(
        lambda t: models.target_log_probs(model, params, hidden, source, target, t)[0]
    )
    cold, warm = run(0.6), run(1.0)
    assert run._cache_size() == 1
    assert np.abs(cold - warm).max() > 1e-2


def test_no_array_of_all_targets_times_the_vocabulary():
    # 5 x 61 numbers per row would be the logits of all targets.
    model, params = tiny_model(tiny_config())
    hidden = jnp.zeros((1, 40, 32))
    index = jnp.zeros((1, 40), jnp.int32)

    def loss(params, hidden):
        return models.target_log_probs(
            model, params, hidden, index, index, 1.0, chunk=4
        )[0].sum()

    text = str(jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(params, hidden))
    assert "[1,4,61]" in text
    assert "[1,40,61]" not in text and "[10,1,4,61]" not in text


def test_no_targets_at_all(case):
    model, params, hidden, _, _ = case
    none = np.zeros((ROWS, 0), np.int32)
    log_probs, entropy = models.target_log_probs(model, params, hidden, none, none, 1.0)
    assert log_probs.shape == entropy.shape == (ROWS, 0)
