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
        The new pair; a gather and a select, no scatter.
    """
    keys, values = cache
    offset = jnp.arange(keys.shape[-1])[None] - start[:, None]
    inside = (offset >= 0) & (offset < count[:, None])
    index = jnp.clip(offset, 0, k.shape[1] - 1)
    k = jnp.take_along_axis(k.transpose(0, 2, 3, 1), index[:, None, None], axis=3)
    v = jnp.take_along_axis(v.transpose(0, 2, 1, 3), index[:, None, :, None], axis=2)
    return (
        jnp.where(inside[:, None, None], k.astype(keys.dtype), keys),
        jnp.where(inside[:, None, :, None], v.astype(values.dtype), values),
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
    position = jnp.arange(length)[None]
    old = position < context_lengths[:, None]
    offset = jnp.clip(position - context_lengths[:, None], 0)
    joined = []
    for (keys, values), (new_keys, new_values) in zip(context, branches, strict=True):
        room, new_room = keys.shape[-1], new_keys.shape[-1]
        index = jnp.minimum(position, room - 1) * jnp.ones_like(offset)
        new_index = jnp.minimum(offset, new_room - 1)
        k_old = jnp.take_along_axis(keys[rows], index[:, None, None], axis=3)
        v_old = jnp.take_along_axis(values[rows], index[:, None, :, None], axis=2)
        k_new = jnp.take_along_axis(
            new_keys[rows, columns], new_index[:, None, None], axis=3
        )
        v_new = jnp.take_along_axis(
            new_values[rows, columns], new_index[:, None, :, None], axis=2
        )
        joined.append(
            (
                jnp.where(old[:, None, None], k_old, k_new),
                jnp.where(old[:, None, :, None], v_old, v_new),
            )
        )
    return joined
