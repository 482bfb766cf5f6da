"""Per-token policy losses whose gradient is (a bound of) the policy gradient.

ρ = exp(log_probs - old_log_probs), both at the sampling temperature and under the
node's own context. Log-ratios are clamped to ±20 before `exp`, so that a wild token
gives a large finite number and no gradient instead of inf.
"""

import jax
import jax.numpy as jnp

from rlvr_jax.objective import checks
from rlvr_jax.objective.responses import response_means

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

    Raises:
        ValueError: a bound outside its range.

    Source: PPO and GRPO (arXiv 2402.03300); asymmetric bounds from DAPO (2503.14476).

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs = jnp.log(jnp.array([0.9, 0.3]))
        >>> old = jnp.log(jnp.array([0.6, 0.6]))
        >>> loss = clip(log_probs, old, jnp.array([1.0, 1.0]))
        >>> [round(value, 3) for value in loss.tolist()]
        [-1.2, -0.5]
    """
    checks.check_bounds(clip_low, clip_high, dual_clip)
    ratio = jnp.exp(log_ratio(log_probs, old_log_probs))
    return _bounded(ratio, advantages, clip_low, clip_high, dual_clip)


def cispo(
    log_probs: jax.Array,
    old_log_probs: jax.Array,
    advantages: jax.Array,
    *,
    clip_high: float = 4.0,
) -> jax.Array:
    """-sg(min(ρ, 1 + clip_high)) A logp: the weight is bounded, no token is silenced.

    Args:
        log_probs: float, any shape; differentiated.
        old_log_probs: same shape, of the policy that the ratio starts from.
        advantages: same shape.
        clip_high: ε above 1, >= 0.

    Returns:
        Loss per token, float32, same shape.

    Raises:
        ValueError: `clip_high` is negative.

    Source: CISPO (arXiv 2506.13585), which bounds the weight from above alone. TRL and
    ScaleRL give the bound itself, 5, where we add 1 to `clip_high`.

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs, old = jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.05]))
        >>> loss = cispo(log_probs, old, jnp.array([1.0]), clip_high=1.0)
        >>> [round(value, 4) for value in loss.tolist()]  # -2 log 0.5
        [1.3863]
    """
    checks.check_at_least("clip_high", clip_high, 0.0)
    ratio = jnp.exp(log_ratio(log_probs, old_log_probs))
    weight = jax.lax.stop_gradient(jnp.minimum(ratio, 1.0 + clip_high))
    return -weight * advantages * log_probs.astype(jnp.float32)


def gspo(
    log_probs: jax.Array,
    old_log_probs: jax.Array,
    advantages: jax.Array,
    response_id: jax.Array,
    mask: jax.Array,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    dual_clip: float | None = None,
) -> jax.Array:
    """-min(s A, clip(s) A) at every token, with one ratio s = exp(mean_t log ρ).

    With weights 1 / (responses x own length) the tokens add up to the paper's loss of
    whole responses, and each token's log-prob has the gradient that it has there.

    Args:
        log_probs: float [R, K]; differentiated.
        old_log_probs: [R, K], of the policy that the ratio starts from.
        advantages: [R, K], one value per response.
        response_id: int [R, K], number of the response in its row, in [0, K).
        mask: bool [R, K], True where a token is; elsewhere anything may stand.
        clip_low: ε below 1, in [0, 1].
        clip_high: ε above 1, >= 0.
        dual_clip: as in `clip`; the paper has none.

    Returns:
        Loss per token, float32 [R, K]; 0 where `mask` is False.

    Raises:
        ValueError: a bound outside its range, or as `response_sums`.

    Source: GSPO (arXiv 2507.18071), in the form that it calls GSPO-token.

    Example:
        >>> import jax.numpy as jnp
        >>> log_probs, old = jnp.array([[-1.0, -2.0]]), jnp.array([[-1.5, -1.5]])
        >>> ids, mask = jnp.zeros((1, 2), int), jnp.ones((1, 2), bool)
        >>> gspo(log_probs, old, jnp.ones((1, 2)), ids, mask).tolist()
        [[-1.0, -1.0]]
    """
    checks.check_bounds(clip_low, clip_high, dual_clip)
    log_probs, old_log_probs, advantages = (
        jnp.where(mask, values, 0.0)
        for values in (log_probs, old_log_probs, advantages)
    )
    ratio = jnp.exp(response_log_ratio(log_probs, old_log_probs, response_id, mask))
    loss = _bounded(ratio, advantages, clip_low, clip_high, dual_clip)
    return jnp.where(mask, loss, 0.0)


def response_log_ratio(
    log_probs: jax.Array,
    old_log_probs: jax.Array,
    response_id: jax.Array,
    mask: jax.Array,
) -> jax.Array:
    """log s = mean_t log ρ of each token's response, clamped to ±20, float32 [R, K].

    Its value is the response's; its gradient goes to the token's own log-prob alone, so
    that the backward pass needs no sum.
    """
    own = log_probs.astype(jnp.float32)
    fixed = jax.lax.stop_gradient(own)
    means = response_means(fixed - old_log_probs, response_id, mask)
    return jnp.clip(means + (own - fixed), -MAX_LOG_RATIO, MAX_LOG_RATIO)


def _bounded(
    ratio: jax.Array,
    advantages: jax.Array,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> jax.Array:
    """-min(ratio A, clip(ratio) A), and at most dual_clip |A| where A < 0."""
    clipped = jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high)
    loss = -jnp.minimum(ratio * advantages, clipped * advantages)
    if dual_clip is None:
        return loss
    bound = -dual_clip * advantages
    return jnp.where(advantages < 0, jnp.minimum(loss, bound), loss)
