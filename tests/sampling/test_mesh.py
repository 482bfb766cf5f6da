"""Sampling on many devices: the same numbers, and so the same tokens."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import models, sampling
from rlvr_jax.sampling import choice
from tests.meshes import MESHES, mesh_of, policy

BUCKETS = sampling.Buckets(contexts=(8,), context_lengths=(24,), chunk=8)
KEY = jax.random.key(3)
IDS = range(10, 16)
CONTEXTS = [[1, 2, 3 + i] for i in range(6)]
BRANCHES, LIMIT = 4, 8
CLOSE = 1e-5  # log-probs of two layouts, and how far a draw must be from a boundary


@functools.cache
def sampled(sizes):
    """(first turn, second turn)."""
    model, params = policy(sizes, 1)
    sampler = sampling.Sampler(model, buckets=BUCKETS, mesh=mesh_of(sizes))
    settings = {"max_new_tokens": LIMIT, "stop_ids": (), "key": KEY}
    first = sampler.generate(
        params, CONTEXTS, context_ids=IDS, num_samples=BRANCHES, **settings
    )
    second = sampler.extend(
        params,
        first,
        select=[(0, 0), (2, 1), (5, 3)],
        appendix=[[4], [5, 6], [7, 8, 9]],
        context_ids=[20, 21, 22],
        num_samples=BRANCHES,
        **settings,
    )
    return first, second


@functools.cache
def safe():
    """bool [M, G, T]: no draw so far was within CLOSE of a boundary between tokens."""
    tokens = sampled((1, 1, 1))[0].tokens
    model, params = policy((1, 1, 1), 1)
    contexts = np.repeat(np.array(CONTEXTS)[:, None], BRANCHES, axis=1)
    rows = np.concatenate([contexts, tokens], axis=2).reshape(-1, 3 + LIMIT)
    logits = np.asarray(models.logits(model, params, rows), np.float64)[:, 2:-1]
    mass = np.exp(logits - logits.max(axis=-1, keepdims=True))
    ends = np.cumsum(mass / mass.sum(axis=-1, keepdims=True), axis=-1)
    numbers = np.asarray(choice.uniforms(KEY, np.array(IDS), BRANCHES, LIMIT))
    numbers = numbers.reshape(*ends.shape[:2], 1)
    # The inverse of the distribution function, by a full sum of probabilities.
    drawn = (ends < numbers).sum(axis=-1)
    distance = np.abs(ends - numbers).min(axis=-1)
    safe = np.logical_and.accumulate(distance > CLOSE, axis=1)
    assert (drawn == tokens.reshape(drawn.shape))[safe].all()
    return safe.reshape(tokens.shape)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_a_mesh_samples_what_one_device_does(sizes):
    expected, got = sampled((1, 1, 1)), sampled(sizes)
    assert safe().mean() > 0.9
    np.testing.assert_array_equal(
        np.where(safe(), got[0].tokens, 0), np.where(safe(), expected[0].tokens, 0)
    )
    difference = np.abs(got[0].log_probs - expected[0].log_probs)
    assert difference[safe()].max() < CLOSE
    if safe()[[0, 2, 5], [0, 1, 3]].all():
        same = got[1].tokens == expected[1].tokens
        assert same.mean() > 0.9
        assert np.abs(got[1].log_probs - expected[1].log_probs)[same].max() < CLOSE


@pytest.mark.parametrize("sizes", [(8, 1, 1), (2, 2, 2)], ids=str)
def test_random_numbers_are_the_same_bits(sizes):
    programs = sampling.Sampler(
        policy(sizes, 1)[0], buckets=BUCKETS, mesh=mesh_of(sizes)
    ).programs
    ids = np.arange(8, dtype=np.uint32)
    expected = choice.uniforms(KEY, jnp.asarray(ids), BRANCHES, LIMIT)
    got = programs.uniforms(KEY, ids, BRANCHES, LIMIT)
    assert len(got.sharding.device_set) == 8
    np.testing.assert_array_equal(got, expected)


def test_caches_and_weights_are_spread():
    model, params = policy((2, 2, 2))
    programs = sampling.Sampler(
        model, buckets=BUCKETS, mesh=mesh_of((2, 2, 2))
    ).programs
    keys, values = programs.empty_context(8, 24)[0]
    assert keys.addressable_shards[0].data.shape == (2, 1, 4, 24)
    assert values.addressable_shards[0].data.shape == (2, 1, 24, 4)
    layered = programs.unstack(params)
    query, head = layered["layers"][1]["query"], layered["head"]
    assert query.addressable_shards[0].data.shape == (16, 16)
    assert head.addressable_shards[0].data.shape == (16, 32)
    np.testing.assert_array_equal(query, params["layers"]["query"][1])


def test_contexts_that_cannot_be_spread_are_refused():
    with pytest.raises(ValueError, match=r"sampler.contexts 6 must be a multiple .* 8"):
        sampling.Sampler(
            policy((8, 1, 1))[0],
            buckets=sampling.Buckets(contexts=(6, 8)),
            mesh=mesh_of((8, 1, 1)),
        )
