"""Divergence to the reference policy, estimated on sampled tokens."""

import jax
import jax.numpy as jnp

from rlvr_jax.objective.surrogates import log_ratio


def k3(log_probs: jax.Array, ref_log_probs: jax.Array) -> jax.Array:
    """exp(ref - logp) - (ref - logp) - 1, >= 0: an estimate of KL(policy, reference).

    Args:
        log_probs: float, any shape; differentiated.
        ref_log_probs: same shape.

    Returns:
        Estimate per token in nats, float32, same shape.

    Source: GRPO (arXiv 2402.03300). The log-ratio is clamped to ±20.

    Example:
        >>> import jax.numpy as jnp
        >>> k3(jnp.array([-1.0, -1.0]), jnp.array([-1.0, -1.0])).tolist()
        [0.0, 0.0]
    """
    difference = log_ratio(ref_log_probs, log_probs)
    # expm1 keeps the small values that exp(x) - 1 would cancel; 0 is a true bound.
    return jnp.maximum(jnp.expm1(difference) - difference, 0.0)
