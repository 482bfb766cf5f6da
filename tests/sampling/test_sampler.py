"""The sampler against plain forward passes of the same model."""

import jax
import numpy as np
import pytest

from rlvr_jax import models, sampling

CONTEXTS = [[5, 3, 9], [4] * 11, [1]]
STOP = 7


@pytest.fixture(scope="module")
def tiny():
    config = models.ModelConfig(
        family="qwen3",
        vocab_size=150,
        width=16,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        mlp_width=24,
        tied=True,
        qk_norm=True,
        initializer_range=0.5,
    )
    return models.init(config, jax.random.key(0))


@pytest.fixture(scope="module")
def sampler(tiny):
    buckets = sampling.Buckets(contexts=(2, 4), context_lengths=(16, 48), chunk=4)
    return sampling.Sampler(tiny[0], buckets=buckets)


def settings(**changes):
    base = {
        "context_ids": [10, 11, 12],
        "num_samples": 3,
        "max_new_tokens": 9,
        "stop_ids": (STOP,),
        "key": jax.random.key(1),
    }
    return base | changes


def forward_log_probs(tiny, history, response, temperature=1.0):
    """log-probs of `response` after `history` by one plain forward pass."""
    model, params = tiny
    # One length for all: what stands behind a token cannot change its log-prob.
    ids = np.zeros((1, 64), np.int32)
    ids[0, : len(history) + len(response)] = [*history, *response]
    logits = models.logits(model, params, ids)[0] / temperature
    table = jax.nn.log_softmax(logits, axis=-1)
    start = len(history) - 1
    return np.asarray(
        [table[start + i, token] for i, token in enumerate(response)], np.float32
    )


def response(samples, m, g):
    return samples.tokens[m, g, : samples.lengths[m, g]].tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_equal_the_forward_pass(tiny, sampler, temperature):
    out = sampler.generate(tiny[1], CONTEXTS, **settings(temperature=temperature))
    for m, context in enumerate(CONTEXTS):
        for g in range(3):
            expected = forward_log_probs(
                tiny, context, response(out, m, g), temperature
            )
            got = out.log_probs[m, g, : out.lengths[m, g]]
            np.testing.assert_allclose(got, expected, atol=2e-5)
            assert (out.log_probs[m, g, out.lengths[m, g] :] == 0).all()


def test_a_reused_cache_equals_the_whole_history(tiny, sampler):
    first = sampler.generate(tiny[1], CONTEXTS, **settings())
    select = [(0, 1), (1, 0), (1, 2), (2, 2)]
    appendix = [[2, 2, 8, 1, 6], [3], [9, 9, 9], [1, 2]]
    second = sampler.extend(
        tiny[1],
        first,
        select=select,
        appendix=appendix,
        **settings(context_ids=range(20, 24), num_samples=2),
    )
    third = sampler.extend(
        tiny[1],
        second,
        select=[(1, 0), (3, 1)],
        appendix=[[4, 4], [5]],
        **settings(context_ids=[30, 31], num_samples=1),
    )
    histories = {}
    for row, ((m, g), ids) in enumerate(zip(select, appendix, strict=True)):
        histories[row] = [*CONTEXTS[m], *response(first, m, g), *ids]
        for branch in range(2):
            expected = forward_log_probs(
                tiny, histories[row], response(second, row, branch)
            )
            got = second.log_probs[row, branch, : second.lengths[row, branch]]
            np.testing.assert_allclose(got, expected, atol=2e-5)
    for row, (m, g, ids) in enumerate([(1, 0, [4, 4]), (3, 1, [5])]):
        history = [*histories[m], *response(second, m, g), *ids]
        expected = forward_log_probs(tiny, history, response(third, row, 0))
        got = third.log_probs[row, 0, : third.lengths[row, 0]]
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_random_bits_do_not_depend_on_batch_mates(tiny, sampler):
    together = sampler.generate(tiny[1], CONTEXTS, **settings())
    alone = sampler.generate(tiny[1], CONTEXTS[1:2], **settings(context_ids=[11]))
    fewer = sampler.generate(tiny[1], CONTEXTS, **settings(num_samples=2))
    assert response(alone, 0, 2) == response(together, 1, 2)
    np.testing.assert_array_equal(fewer.tokens, together.tokens[:, :2])
    other = sampler.generate(tiny[1], CONTEXTS, **settings(key=jax.random.key(2)))
    assert (other.tokens != together.tokens).any()


def test_stop_and_limits(tiny, sampler):
    out = sampler.generate(tiny[1], CONTEXTS, **settings(max_new_tokens=[1, 5, 9]))
    assert (out.lengths <= np.array([[1], [5], [9]])).all()
    for m in range(3):
        for g in range(3):
            ids = response(out, m, g)
            assert STOP not in ids[:-1]
            assert out.truncated[m, g] == (ids[-1] != STOP)


def test_greedy_and_top_k(tiny, sampler):
    greedy = sampler.generate(tiny[1], CONTEXTS, **settings(temperature=0.0))
    one = sampler.generate(tiny[1], CONTEXTS, **settings(top_k=1))
    small = sampler.generate(tiny[1], CONTEXTS, **settings(top_p=1e-6))
    np.testing.assert_array_equal(greedy.tokens, one.tokens)
    np.testing.assert_array_equal(greedy.tokens, small.tokens)
    # Whatever is cut, the log-probs are of the full softmax at temperature 1.
    np.testing.assert_allclose(greedy.log_probs, one.log_probs, atol=1e-6)
    assert (greedy.log_probs[greedy.tokens > 0] < 0).any()


def test_frequencies_follow_the_distribution(tiny, sampler):
    model, params = tiny
    out = sampler.generate(
        params,
        CONTEXTS[:1],
        **settings(context_ids=[0], num_samples=4000, max_new_tokens=1),
    )
    expected = jax.nn.softmax(models.logits(model, params, np.array([CONTEXTS[0]]))[0])
    counts = np.bincount(out.tokens[0, :, 0], minlength=model.config.vocab_size)
    error = np.abs(counts / 4000 - np.asarray(expected[-1]))
    # Four standard deviations of a binomial share.
    bound = 4 * np.sqrt(np.asarray(expected[-1]) / 4000) + 1e-3
    assert (error < bound).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be >= 1"),
        ({"temperature": -1.0}, "temperature must be >= 0"),
        ({"top_p": 0.0}, "top_p must be in"),
        ({"top_k": -1}, "top_k must be >= 0"),
        ({"num_samples": 0}, "num_samples must be >= 1"),
        ({"context_ids": [1]}, "context_ids must have one entry per context"),
        ({"stop_ids": range(9)}, "stop_ids must be at most"),
    ],
)
def test_errors_name_the_argument(tiny, sampler, changes, message):
    with pytest.raises(ValueError, match=message):
        sampler.generate(tiny[1], CONTEXTS, **settings(**changes))


def test_a_context_longer_than_the_buckets(tiny, sampler):
    with pytest.raises(ValueError, match=r"raise sampler\.context_lengths"):
        sampler.generate(tiny[1], [[1] * 49], **settings(context_ids=[0]))
