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
    [L, L] per head is kept for the backward pass: it goes over the blocks of queries
    again, from the output and the log of each query's sum (FlashAttention-2, arXiv
    2307.08691, in plain array operations).

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
    # Heads before positions: every product below is then a batch of plain matrices.
    grouped = q.reshape(rows, length, kv_heads, heads // kv_heads, size)
    grouped = grouped.transpose(0, 2, 3, 1, 4)
    k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
    out = _attend(grouped, k, v, last_reader, max(block, -(-length // MAX_BLOCKS)))
    return out.transpose(0, 3, 1, 2, 4).reshape(rows, length, heads, size)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, last_reader: jax.Array, step: int
) -> jax.Array:
    """Attention of q [R, Hkv, G, L, d] on k and v [R, Hkv, L, d]: as q, type of v."""
    return _attend_forward(q, k, v, last_reader, step)[0]


def _attend_forward(q, k, v, last_reader, step):
    outs, log_sums = [], []
    for start, end in _blocks(q.shape[3], step):
        scores = _scores(q, k, last_reader, start, end)
        # Each query reads itself, so the maximum is finite and no softmax is empty.
        top = scores.max(axis=-1, keepdims=True)
        weights = jnp.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        out = _product("rhgqk,rhkd->rhgqd", weights.astype(v.dtype), v[:, :, :end])
        outs.append((out / total).astype(v.dtype))
        log_sums.append(top + jnp.log(total))
    out = jnp.concatenate(outs, axis=3)
    return out, (q, k, v, last_reader, out, jnp.concatenate(log_sums, axis=3))


def _attend_backward(step, residuals, grad):
    """Gradients of q, k, v; with P the softmax, dS = P (dP - rowsum(dO O)) / sqrt(d).

    The gradients of k and v are built transposed, [d, L]: the small operand of the
    product is then the one that is transposed, not the block of weights.
    """
    q, k, v, last_reader, out, log_sum = residuals
    shared = (grad.astype(jnp.float32) * out).sum(axis=-1, keepdims=True)
    grad_q = []
    grad_k = jnp.zeros((*k.shape[:2], k.shape[3], k.shape[2]), jnp.float32)
    grad_v = jnp.zeros_like(grad_k)
    for start, end in _blocks(q.shape[3], step):
        here = (slice(None),) * 3 + (slice(start, end),)
        scores = _scores(q, k, last_reader, start, end)
        weights = jnp.exp(scores - log_sum[here])
        grad_weights = _product("rhgqd,rhkd->rhgqk", grad[here], v[:, :, :end])
        grad_scores = weights * (grad_weights - shared[here]) * q.shape[-1] ** -0.5
        grad_scores, weights = grad_scores.astype(q.dtype), weights.astype(v.dtype)
        grad_q.append(_product("rhgqk,rhkd->rhgqd", grad_scores, k[:, :, :end]))
        more_k = _product("rhgqd,rhgqk->rhdk", q[here], grad_scores)
        more_v = _product("rhgqd,rhgqk->rhdk", grad[here], weights)
        grad_k = grad_k.at[..., :end].add(more_k)
        grad_v = grad_v.at[..., :end].add(more_v)
    return (
        jnp.concatenate(grad_q, axis=3).astype(q.dtype),
        grad_k.swapaxes(2, 3).astype(k.dtype),
        grad_v.swapaxes(2, 3).astype(v.dtype),
        None,
    )


_attend.defvjp(_attend_forward, _attend_backward)

_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def _blocks(length: int, step: int) -> list[tuple[int, int]]:
    """[start, end) of the blocks of queries; a block reads the keys before its end."""
    return [(start, min(start + step, length)) for start in range(0, length, step)]


def _scores(
    q: jax.Array, k: jax.Array, last_reader: jax.Array, start: int, end: int
) -> jax.Array:
    """Scores of queries start..end on keys 0..end; the least float where not read."""
    products = _product("rhgqd,rhkd->rhgqk", q[:, :, :, start:end], k[:, :, :end])
    query = jnp.arange(start, end)[None, :, None]
    key = jnp.arange(end)[None, None, :]
    read = (key <= query) & (query <= last_reader[:, None, :end])
    return jnp.where(
        read[:, None, None], products * q.shape[-1] ** -0.5, jnp.finfo(jnp.float32).min
    )
