"""Key/value caches against loops over single tokens, and the buckets they fill."""

import numpy as np
import pytest

from rlvr_jax import sampling
from rlvr_jax.sampling import caches
from rlvr_jax.sampling.buckets import doubling

HEADS, WIDTH = 2, 3


def context_pair(rng, num_contexts, room):
    keys = rng.normal(size=(num_contexts, HEADS, WIDTH, room)).astype(np.float32)
    values = rng.normal(size=(num_contexts, HEADS, room, WIDTH)).astype(np.float32)
    return keys, values


def branch_pair(rng, num_contexts, num_branches, room):
    shape = (num_contexts, num_branches, HEADS)
    keys = rng.normal(size=(*shape, WIDTH, room)).astype(np.float32)
    values = rng.normal(size=(*shape, room, WIDTH)).astype(np.float32)
    return keys, values


def test_append_writes_the_real_tokens_and_nothing_else():
    rng = np.random.default_rng(0)
    keys, values = context_pair(rng, 4, 7)
    k, v = rng.normal(size=(2, 4, 3, HEADS, WIDTH)).astype(np.float32)
    # The last row is nearly full: its chunk's padding would not fit.
    start, count = np.array([0, 2, 4, 6], np.int32), np.array([3, 0, 2, 1], np.int32)
    expected_keys, expected_values = keys.copy(), values.copy()
    for m in range(4):
        for token in range(count[m]):
            expected_keys[m, :, :, start[m] + token] = k[m, token]
            expected_values[m, :, start[m] + token] = v[m, token]
    got_keys, got_values = caches.append((keys, values), k, v, start, count)
    np.testing.assert_array_equal(got_keys, expected_keys)
    np.testing.assert_array_equal(got_values, expected_values)


@pytest.mark.parametrize("length", [6, 12])
def test_join_puts_a_branch_behind_its_context(length):
    rng = np.random.default_rng(1)
    layers = 2
    context = [context_pair(rng, 3, 5) for _ in range(layers)]
    branches = [branch_pair(rng, 3, 2, 4) for _ in range(layers)]
    rows, columns = np.array([2, 0, 2, 1]), np.array([1, 0, 0, 1])
    lengths, own = np.array([5, 2, 5, 1], np.int32), [1, 4, 1, 2]
    joined = caches.join(context, branches, rows, columns, lengths, length)
    assert len(joined) == layers
    for layer, (keys, values) in enumerate(joined):
        assert keys.shape == (4, HEADS, WIDTH, length)
        assert values.shape == (4, HEADS, length, WIDTH)
        for m, (row, column) in enumerate(zip(rows, columns, strict=True)):
            old, total = lengths[m], lengths[m] + own[m]
            wanted = np.concatenate(
                [
                    context[layer][0][row, :, :, :old],
                    branches[layer][0][row, column, :, :, : own[m]],
                ],
                axis=-1,
            )
            np.testing.assert_array_equal(keys[m, :, :, :total], wanted)
            wanted = np.concatenate(
                [
                    context[layer][1][row, :, :old],
                    branches[layer][1][row, column, :, : own[m]],
                ],
                axis=1,
            )
            np.testing.assert_array_equal(values[m, :, :total], wanted)


def test_grow_keeps_what_is_there():
    rng = np.random.default_rng(2)
    cache = [branch_pair(rng, 2, 3, 4)]
    ((keys, values),) = caches.grow(cache, 8)
    assert keys.shape == (2, 3, HEADS, WIDTH, 8)
    assert values.shape == (2, 3, HEADS, 8, WIDTH)
    np.testing.assert_array_equal(keys[..., :4], cache[0][0])
    np.testing.assert_array_equal(values[..., :4, :], cache[0][1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contexts": ()}, r"sampler\.contexts must be ascending.*got \(\)"),
        ({"contexts": (4, 2)}, r"sampler\.contexts must be ascending.*\(4, 2\)"),
        ({"contexts": (2, 2)}, r"sampler\.contexts must be ascending"),
        ({"contexts": (0, 2)}, r"sampler\.contexts must be ascending"),
        ({"context_lengths": ()}, r"sampler\.context_lengths must be ascending"),
        ({"context_lengths": (-1,)}, r"sampler\.context_lengths must be ascending"),
        ({"chunk": 0}, r"sampler\.chunk must be >= 1; got 0"),
    ],
)
def test_buckets_name_the_bad_field(settings, message):
    with pytest.raises(ValueError, match=message):
        sampling.Buckets(**settings)


def test_buckets_choose_the_smallest_that_fits():
    buckets = sampling.Buckets(contexts=(2, 8), context_lengths=(16, 20), chunk=4)
    sizes = [buckets.num_contexts(count) for count in (1, 2, 3, 8, 9)]
    assert sizes == [2, 2, 8, 8, 8]
    lengths = [buckets.context_length(length) for length in (1, 16, 17, 20)]
    assert lengths == [16, 16, 20, 20]
    with pytest.raises(ValueError, match=r"21 tokens.*20: raise sampler\.context_leng"):
        buckets.context_length(21)


@pytest.mark.parametrize(
    ("last", "sizes"), [(1, (4,)), (4, (4,)), (5, (4, 8)), (16, (4, 8, 16))]
)
def test_doubling_ends_at_the_first_that_reaches(last, sizes):
    assert doubling(4, last) == sizes
    buckets = sampling.Buckets(contexts=(1,), context_lengths=(8,), chunk=4)
    assert buckets.new_lengths(last) == sizes
