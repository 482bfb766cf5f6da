"""Key/value caches: of contexts, and of the tokens that branches add.

Per layer a pair (keys, values). Of a context: keys [M, Hkv, d, C], values
[M, Hkv, C, d], left-aligned, read in place by all its branches. Of branches: keys
[M, G, Hkv, d, T], values [M, G, Hkv, T, d]. Time is the last axis of the keys because
one query against [d, C] is a plain matrix product.

Axes: M contexts, G branches, C context tokens, T new tokens, A tokens of a chunk.
"""

from typing import Any

import jax
import jax.numpy as jnp

Cache = list[tuple[jax.Array, jax.Array]]


def context_bytes(config: Any, length: int, dtype: Any) -> int:
    """Size of the cache of `length` tokens, keys and values of all layers, bytes."""
    per_token = 2 * config.num_layers * config.num_kv_heads * config.head_dim
    return per_token * length * jnp.dtype(dtype).itemsize


def empty_context(config: Any, num_contexts: int, length: int, dtype: Any) -> Cache:
    """A context cache of zeros, [M, Hkv, d, C] and [M, Hkv, C, d] per layer."""
    heads, width = config.num_kv_heads, config.head_dim
    keys = jnp.zeros((num_contexts, heads, width, length), dtype)
    values = jnp.zeros((num_contexts, heads, length, width), dtype)
    return [(keys, values)] * config.num_layers


def empty_branches(
    config: Any, num_contexts: int, num_branches: int, length: int, dtype: Any
) -> Cache:
    """A cache of new tokens of zeros, [M, G, Hkv, d, T] and [M, G, Hkv, T, d]."""
    shape = (num_contexts, num_branches, config.num_kv_heads)
    keys = jnp.zeros((*shape, config.head_dim, length), dtype)
    values = jnp.zeros((*shape, length, config.head_dim), dtype)
    return [(keys, values)] * config.num_layers


def grow(cache: Cache, length: int) -> Cache:
    """The same cache of new tokens with room for `length` of them."""
    grown = []
    for keys, values in cache:
        more = length - keys.shape[-1]
        none = [(0, 0)] * 3
        grown.append(
            (
                jnp.pad(keys, [*none, (0, 0), (0, more)]),
                jnp.pad(values, [*none, (0, more), (0, 0)]),
            )
        )
    return grown


def append(
    cache: tuple[jax.Array, jax.Array],
    k: jax.Array,
    v: jax.Array,
    start: jax.Array,
    count: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """One layer's context cache with new keys behind the old ones.

    Args:
        cache: keys [M, Hkv, d, C] and values [M, Hkv, C, d].
        k, v: [M, A, Hkv, d], the chunk.
        start: int32 [M], tokens already there.
        count: int32 [M], tokens of the chunk that are real.

    Returns:
        The new pair.
    """
    return _insert(cache, (k.transpose(0, 2, 3, 1), v.swapaxes(1, 2)), start, count)


def _insert(
    cache: tuple[jax.Array, jax.Array],
    new: tuple[jax.Array, jax.Array],
    start: jax.Array,
    count: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """`append` of keys [M, Hkv, d, A] and values [M, Hkv, A, d].

    Only a window of A positions is read and written: the cost does not grow with the
    cache. What reaches over the end of the cache is dropped.
    """
    (keys, values), (new_keys, new_values) = cache, new
    room, size = keys.shape[-1], new_keys.shape[-1]
    width = min(size, room)

    def one(row, new_row, start, count, axis):
        # The window of a late start lies before it, so that it ends in the cache.
        first = jnp.minimum(start, room - width)
        offset = first + jnp.arange(width) - start
        inside = (offset >= 0) & (offset < count)
        inside = inside.reshape((1, 1, -1) if axis == 2 else (1, -1, 1))
        moved = jnp.take(new_row, jnp.clip(offset, 0, size - 1), axis=axis)
        window = jax.lax.dynamic_slice_in_dim(row, first, width, axis)
        window = jnp.where(inside, moved.astype(row.dtype), window)
        return jax.lax.dynamic_update_slice_in_dim(row, window, first, axis)

    over_rows = jax.vmap(one, in_axes=(0, 0, 0, 0, None))
    return (
        over_rows(keys, new_keys, start, count, 2),
        over_rows(values, new_values, start, count, 1),
    )


def join(
    context: Cache,
    branches: Cache,
    rows: jax.Array,
    columns: jax.Array,
    context_lengths: jax.Array,
    length: int,
) -> Cache:
    """Caches of the next turn's contexts: a branch's context and its own tokens.

    Args:
        context, branches: caches of the last turn.
        rows, columns: int32 [M'], which (m, g) each new context continues.
        context_lengths: int32 [M'], tokens of its old context.
        length: C', room of the new caches.

    Returns:
        A context cache [M', ..., C']; what stands behind the real tokens is junk.
    """
    joined = []
    for (keys, values), (new_keys, new_values) in zip(context, branches, strict=True):
        old = (
            _resize(keys[rows], length, axis=3),
            _resize(values[rows], length, axis=2),
        )
        own = new_keys[rows, columns], new_values[rows, columns]
        count = jnp.full_like(context_lengths, own[0].shape[-1])
        joined.append(_insert(old, own, context_lengths, count))
    return joined


def _resize(values: jax.Array, length: int, axis: int) -> jax.Array:
    """Cut or padded with zeros to `length` positions."""
    values = jax.lax.slice_in_dim(values, 0, min(length, values.shape[axis]), axis=axis)
    padding = [(0, 0)] * values.ndim
    padding[axis] = (0, length - values.shape[axis])
    return jnp.pad(values, padding)
