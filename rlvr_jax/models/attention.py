"""Attention over packed rows: a key is read up to its `last_reader`."""

import functools

import jax
import jax.numpy as jnp

BACKENDS = ("xla",)

# More query blocks skip more of the upper triangle but make the program longer.
MAX_BLOCKS = 8


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    last_reader: jax.Array,
    *,
    block: int = 128,
    backend: str = "xla",
) -> jax.Array:
    """softmax(q k^T / sqrt(d)) v; query i reads key j iff j <= i <= last_reader[j].

    In depth-first packed rows "ancestor or self" is such an interval; a causal row has
    `last_reader = L - 1` everywhere. Scores and softmax are float32. Nothing of size
    [L, L] per head is kept for the backward pass: each block of queries is recomputed.

    Args:
        q: queries [R, L, H, d], already rotated.
        k: keys [R, L, Hkv, d], already rotated; Hkv divides H, head h reads
            key head h // (H / Hkv).
        v: values [R, L, Hkv, d].
        last_reader: int32 [R, L], at least its own index (padding: equal to it).
        block: least number of queries per block; at most `MAX_BLOCKS` blocks are made.
        backend: "xla".

    Returns:
        [R, L, H, d] in the type of `v`.

    Raises:
        ValueError: an unknown backend.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend: wanted one of {BACKENDS}, got {backend!r}")
    rows, length, heads, size = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(rows, length, kv_heads, heads // kv_heads, size)
    step = max(block, -(-length // MAX_BLOCKS))
    outs = []
    for start in range(0, length, step):
        end = min(start + step, length)
        attend = jax.checkpoint(functools.partial(_attend_block, start=start))
        outs.append(
            attend(grouped[:, start:end], k[:, :end], v[:, :end], last_reader[:, :end])
        )
    return jnp.concatenate(outs, axis=1).reshape(rows, length, heads, size)


def _attend_block(
    q: jax.Array, k: jax.Array, v: jax.Array, last_reader: jax.Array, *, start: int
) -> jax.Array:
    """Queries start..start+n of one row against keys 0..start+n."""
    scores = jnp.einsum("rqhgd,rkhd->rhgqk", q, k, preferred_element_type=jnp.float32)
    query = start + jnp.arange(q.shape[1])[None, :, None]
    key = jnp.arange(k.shape[1])[None, None, :]
    mask = (key <= query) & (query <= last_reader[:, None, :])
    # Each query reads itself, so the row maximum is finite and no softmax is empty.
    scores = jnp.where(
        mask[:, None, None], scores * q.shape[-1] ** -0.5, jnp.finfo(jnp.float32).min
    )
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("rhgqk,rkhd->rqhgd", weights, v)
