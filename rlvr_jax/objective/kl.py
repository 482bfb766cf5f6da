"""Divergence to the reference policy, estimated on sampled tokens.

With x = log_probs - ref_log_probs on tokens of the policy, E[x] is KL(policy,
reference). k1 is x itself: unbiased, but of either sign, and as a loss it would only
push down what was sampled: it is a number to report. k2 and k3 are never negative.
"""

import jax
import jax.numpy as jnp

from rlvr_jax.objective.surrogates import log_ratio


def k1(log_probs: jax.Array, ref_log_probs: jax.Array) -> jax.Array:
    """logp - ref: an unbiased estimate of KL(policy, reference), to report alone.

    Args:
        log_probs: float, any shape.
        ref_log_probs: same shape.

    Returns:
        Estimate per token in nats, float32, same shape, of either sign; carries no
        gradient.

    Source: Schulman, "Approximating KL divergence". Clamped to ±20.

    Example:
        >>> import jax.numpy as jnp
        >>> k1(jnp.array([-1.0, -2.0]), jnp.array([-1.5, -1.5])).tolist()
        [0.5, -0.5]
    """
    return jax.lax.stop_gradient(log_ratio(log_probs, ref_log_probs))


def k2(log_probs: jax.Array, ref_log_probs: jax.Array) -> jax.Array:
    """(logp - ref)² / 2, >= 0: its gradient on policy is the gradient of the KL.

    Args:
        log_probs: float, any shape; differentiated.
        ref_log_probs: same shape.

    Returns:
        Estimate per token in nats, float32, same shape.

    Source: Schulman, "Approximating KL divergence". The difference is clamped to ±20.

    Example:
        >>> import jax.numpy as jnp
        >>> k2(jnp.array([-1.0, -2.0]), jnp.array([-2.0, -2.0])).tolist()
        [0.5, 0.0]
    """
    return 0.5 * jnp.square(log_ratio(log_probs, ref_log_probs))


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
