"""From logits to a token: one uniform number per token, inverse distribution function.

All settings are traced, so that changing them compiles nothing again.
"""

import jax
import jax.numpy as jnp

BLOCK = 128  # vocabulary entries per block of the two-level search


def uniforms(
    key: jax.Array, context_ids: jax.Array, num_branches: int, num_steps: int
) -> jax.Array:
    """One number in [0, 1) per (key, context id, branch, step), and of nothing else.

    Args:
        key: a key of the rollout; not consumed, folded.
        context_ids: uint32 [M].
        num_branches: G.
        num_steps: T, positions of a response.

    Returns:
        float32 [M, G, T].
    """

    def one(context_id: jax.Array, branch: jax.Array, step: jax.Array) -> jax.Array:
        own = jax.random.fold_in(jax.random.fold_in(key, context_id), branch)
        return jax.random.uniform(jax.random.fold_in(own, step))

    over_steps = jax.vmap(one, in_axes=(None, None, 0))
    over_branches = jax.vmap(over_steps, in_axes=(None, 0, None))
    over_contexts = jax.vmap(over_branches, in_axes=(0, None, None))
    return over_contexts(
        context_ids,
        jnp.arange(num_branches, dtype=jnp.uint32),
        jnp.arange(num_steps, dtype=jnp.uint32),
    )


def choose(
    logits: jax.Array,
    numbers: jax.Array,
    *,
    temperature: jax.Array,
    top_p: jax.Array,
    top_k: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws a token from softmax(logits / temperature), cut by top-k and top-p.

    Args:
        logits: float32 [..., V].
        numbers: float32 [...] in [0, 1).
        temperature: scalar; 0 takes the largest logit.
        top_p: scalar in (0, 1]; 1 keeps everything.
        top_k: int scalar; 0 keeps everything.

    Returns:
        (tokens int32 [...], log_probs float32 [...], entropy float32 [...]): both of
        the FULL softmax at the sampling temperature (at 1 if greedy), before any cut.
    """
    greedy = temperature <= 0
    scores = logits / jnp.where(greedy, 1.0, temperature)
    shifted = scores - scores.max(axis=-1, keepdims=True)
    mass = jnp.exp(shifted)
    total = mass.sum(axis=-1)
    kept = jax.lax.cond(
        (top_p < 1.0) | (top_k > 0),
        lambda: _cut(mass, top_p, top_k),
        lambda: mass,
    )
    drawn = _invert(kept, numbers)
    tokens = jnp.where(greedy, jnp.argmax(logits, axis=-1), drawn).astype(jnp.int32)
    chosen = jnp.take_along_axis(shifted, tokens[..., None], axis=-1)[..., 0]
    log_total = jnp.log(total)
    entropy = log_total - (mass * shifted).sum(axis=-1) / total
    return tokens, chosen - log_total, entropy


def _cut(mass: jax.Array, top_p: jax.Array, top_k: jax.Array) -> jax.Array:
    """Zero outside the top_k largest and outside the smallest set of mass top_p."""
    ordered = -jnp.sort(-mass, axis=-1)
    rank = jnp.arange(mass.shape[-1]).reshape((1,) * (mass.ndim - 1) + (-1,))
    before = jnp.cumsum(ordered, axis=-1) - ordered
    keep = before < top_p * ordered.sum(axis=-1, keepdims=True)
    keep &= (rank < top_k) | (top_k == 0)
    # The first entry always stays; entries equal to the last one kept stay too.
    keep |= rank == 0
    lowest = jnp.where(keep, ordered, jnp.inf).min(axis=-1, keepdims=True)
    return jnp.where(mass >= lowest, mass, 0.0)


def _invert(mass: jax.Array, numbers: jax.Array) -> jax.Array:
    """The index where the running sum of `mass` passes numbers x total.

    Two levels, blocks and then entries of one block: a running sum over the whole
    vocabulary would be slow and, in float32, less exact.
    """
    padding = -mass.shape[-1] % BLOCK
    blocks = jnp.pad(mass, [(0, 0)] * (mass.ndim - 1) + [(0, padding)])
    blocks = blocks.reshape(*mass.shape[:-1], -1, BLOCK)
    sums = blocks.sum(axis=-1)
    ends = _running_sum(sums)
    target = numbers * ends[..., -1]
    block = _first_above(ends, sums, target)
    start = jnp.take_along_axis(ends - sums, block[..., None], axis=-1)[..., 0]
    inside = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]
    entry = _first_above(_running_sum(inside), inside, target - start)
    return block * BLOCK + entry


def _running_sum(parts: jax.Array) -> jax.Array:
    """Sums of the entries up to each one of a short last axis, as a matrix product.

    `cumsum` on CPU adds up each window anew and took a sixth of the decoding time.
    """
    size = parts.shape[-1]
    upper = jnp.triu(jnp.ones((size, size), parts.dtype))
    return jnp.matmul(parts, upper, precision=jax.lax.Precision.HIGHEST)


def _first_above(ends: jax.Array, parts: jax.Array, target: jax.Array) -> jax.Array:
    """First index with mass and ends > target; the last one with mass if none is."""
    positions = jnp.arange(parts.shape[-1]).reshape((1,) * (parts.ndim - 1) + (-1,))
    # Rounding may put the target before the first mass or behind the last one.
    last = jnp.where(parts > 0, positions, 0).max(axis=-1)
    above = (ends > target[..., None]) & (parts > 0)
    first = jnp.where(above, positions, parts.shape[-1]).min(axis=-1)
    return jnp.minimum(first, last)
