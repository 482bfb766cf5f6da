"""Entropy of the next token."""

import jax
import jax.numpy as jnp


def entropy(logits: jax.Array, temperature: jax.Array | float = 1.0) -> jax.Array:
    """-Σ_v p_v log p_v of p = softmax(logits / temperature), exactly, over all tokens.

    Args:
        logits: float [..., V]; differentiated; -inf rules a token out.
        temperature: > 0, that of sampling.

    Returns:
        Entropy in nats, float32 [...], in [0, log V].

    The trainer never holds logits of all targets: its head gives the same number chunk
    by chunk (`models.target_log_probs`). An average of -logp over sampled tokens would
    be an estimate of it, with another gradient.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(entropy(jnp.zeros(4))), 4)  # log 4
        1.3863
    """
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32) / temperature, axis=-1)
    possible = log_probs > -jnp.inf
    # 0 log 0 is 0, in the gradient too.
    log_probs = jnp.where(possible, log_probs, 0.0)
    return -jnp.sum(jnp.where(possible, jnp.exp(log_probs), 0.0) * log_probs, axis=-1)
