"""The output head: logits, and log-probabilities of chosen tokens in chunks."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax.models.decoder import Decoder, gather_outer
from rlvr_jax.sharding import constrain, is_split, over_rows


def head_logits(model: Decoder, params: dict[str, Any], hidden: jax.Array) -> jax.Array:
    """Logits of hidden states, accumulated in float32.

    Args:
        model: the decoder.
        params: its parameters, stacked or from `unstack`.
        hidden: [..., D], after the final norm.

    Returns:
        float32 [..., V].
    """
    hidden = hidden.astype(model.dtype)
    if model.config.tied:
        weight, spec = params["embed"], "...d,vd->...v"
    else:
        weight, spec = params["head"], "...d,dv->...v"
    weight = weight.astype(model.dtype)
    logits = jnp.einsum(spec, hidden, weight, preferred_element_type=jnp.float32)
    return constrain(logits, "rows", ..., "vocab")


def target_log_probs(
    model: Decoder,
    params: dict[str, Any],
    hidden: jax.Array,
    source: jax.Array,
    target: jax.Array,
    temperature: jax.Array | float,
    *,
    chunk: int = 256,
) -> tuple[jax.Array, jax.Array]:
    """log softmax(logits / temperature) at the targets, and the entropy there.

    The head runs on the targets only, `chunk` of them per row at a time, and is
    recomputed in the backward pass, so [R, K, V] never exists.

    Args:
        model: the decoder.
        params: its parameters, stacked or from `unstack`.
        hidden: [R, L, D], after the final norm.
        source: int32 [R, K], index in the row whose hidden state predicts the target;
            padding may hold anything.
        target: int32 [R, K], the predicted id; padding may hold anything.
        temperature: the sampling temperature, > 0; may be traced.
        chunk: targets per row and step; the peak is float32 [R, chunk, V].

    Returns:
        log_probs float32 [R, K], never above 0, and entropy in nats float32 [R, K];
        both are finite in padding.
    """
    # Gathered once, not per chunk.
    name = "embed" if model.config.tied else "head"
    weight = gather_outer(model.config, name, params[name])

    def of_rows(whole: Any, *rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        weight, temperature = whole
        return _in_chunks(model, {name: weight}, temperature, *rows, chunk=chunk)

    return over_rows(of_rows, (weight, temperature), hidden, source, target)


def _in_chunks(
    model: Decoder,
    params: dict[str, Any],
    temperature: jax.Array | float,
    hidden: jax.Array,
    source: jax.Array,
    target: jax.Array,
    *,
    chunk: int,
) -> tuple[jax.Array, jax.Array]:
    """`target_log_probs` on one group of devices; `params` has the head alone."""
    rows, count = target.shape
    chunk = max(1, min(chunk, count))
    chunks = -(-count // chunk)
    padding = ((0, 0), (0, chunks * chunk - count))
    # Chunks on the leading axis: [chunks, R, chunk].
    source, target = (
        jnp.pad(x, padding).reshape(rows, chunks, chunk).swapaxes(0, 1)
        for x in (source, target)
    )

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def step(carry: None, indices: tuple[jax.Array, jax.Array]):
        source, target = indices
        chosen = jnp.take_along_axis(hidden, source[..., None], axis=1, mode="clip")
        # The cast of the head stays inside: its gradient then adds up in float32.
        logits = head_logits(model, params, chosen) / temperature
        # The maximum contributes 1 to the sum, so neither term can be positive.
        shifted = logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
        weights = jnp.exp(shifted)
        total = weights.sum(axis=-1)
        picked = _picked(shifted, target)
        log_total = jnp.log(total)
        entropy = log_total - (weights * shifted).sum(axis=-1) / total
        return carry, (picked - log_total, entropy)

    _, (log_probs, entropy) = jax.lax.scan(step, None, (source, target))
    log_probs, entropy = (
        x.swapaxes(0, 1).reshape(rows, chunks * chunk)[:, :count]
        for x in (log_probs, entropy)
    )
    return log_probs, entropy


def _picked(scores: jax.Array, target: jax.Array) -> jax.Array:
    """The entries [...] of scores [..., V] at ids [...], which are clipped to V."""
    if not is_split("vocab"):
        target = target[..., None]
        return jnp.take_along_axis(scores, target, axis=-1, mode="clip")[..., 0]
    # A gather along a split axis would bring it together; a masked sum does not.
    size = scores.shape[-1]
    ids = jnp.arange(size).reshape((1,) * target.ndim + (-1,))
    here = ids == jnp.clip(target, 0, size - 1)[..., None]
    return jnp.where(here, scores, 0.0).sum(axis=-1)


@functools.partial(jax.jit, static_argnums=0)
def logits(model: Decoder, params: dict[str, Any], tokens: jax.Array) -> jax.Array:
    """Next-token logits of whole causal rows, for checks and small uses.

    Args:
        model: the decoder.
        params: its parameters, stacked.
        tokens: int32 [B, T], every one of them real.

    Returns:
        float32 [B, T, V].
    """
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1])[None], tokens.shape)
    last_reader = jnp.full_like(positions, tokens.shape[1] - 1)
    hidden = model.apply({"params": params}, tokens, positions, last_reader)
    return head_logits(model, params, hidden)
