"""Per-token policy losses whose gradient is (a bound of) the policy gradient.

ρ = exp(log_probs - old_log_probs), both at the sampling temperature and under the
node's own context. Log-ratios are clamped to ±20 before `exp`, so that a wild token
gives a large finite number and no gradient instead of inf.
"""

import jax
import jax.numpy as jnp

MAX_LOG_RATIO = 20.0


def log_ratio(log_probs: jax.Array, old_log_probs: jax.Array) -> jax.Array:
    """log_probs - old_log_probs, clamped to ±20, in float32."""
    difference = log_probs.astype(jnp.float32) - old_log_probs
    return jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def reinforce(
    log_probs: jax.Array, old_log_probs: jax.Array, advantages: jax.Array
) -> jax.Array:
    """-A logp: no ratio, no clip; right for data of the current policy alone.

    Args:
        log_probs: float, any shape; differentiated.
        old_log_probs: same shape; not read, so that all surrogates are called alike.
        advantages: same shape.

    Returns:
        Loss per token, float32, same shape.

    Source: ReAPO, which is fully on-policy.

    Example:
        >>> import jax.numpy as jnp
        >>> reinforce(jnp.array([-1.0]), jnp.array([-1.0]), jnp.array([2.0])).tolist()
        [2.0]
    """
    del old_log_probs
    return -advantages * log_probs.astype(jnp.float32)


def clip(
    log_probs: jax.Array,
    old_log_probs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> jax.Array:
    """-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A).

    Args:
        log_probs: float, any shape; differentiated.
        old_log_probs: same shape, of the policy that the ratio starts from.
        advantages: same shape.
        clip_low: ε below 1, in [0, 1].
        clip_high: ε above 1, >= 0.
        dual_clip: if given, > 1: bounds the loss by `dual_clip` |A| where A < 0.

    Returns:
        Loss per token, float32, same shape.

    Source: PPO and GRPO (arXiv 2402.03300); asymmetric bounds from DAPO (2503.14476).

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs = jnp.log(jnp.array([0.9, 0.3]))
        >>> old = jnp.log(jnp.array([0.6, 0.6]))
        >>> loss = clip(log_probs, old, jnp.array([1.0, 1.0]))
        >>> [round(value, 3) for value in loss.tolist()]
        [-1.2, -0.5]
    """
    ratio = jnp.exp(log_ratio(log_probs, old_log_probs))
    clipped = jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
    loss = -jnp.minimum(ratio * advantages, clipped * advantages)
    if dual_clip is None:
        return loss
    bound = -dual_clip * advantages
    return jnp.where(advantages < 0, jnp.minimum(loss, bound), loss)
