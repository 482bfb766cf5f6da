"""Weights for tokens that the sampler drew from slightly other probabilities."""

import jax
import jax.numpy as jnp

from rlvr_jax.objective import checks
from rlvr_jax.objective.responses import response_sums
from rlvr_jax.objective.surrogates import MAX_LOG_RATIO

LEVELS = ("none", "token", "response")


def truncated_importance_weights(
    old_log_probs: jax.Array,
    behavior_log_probs: jax.Array,
    response_id: jax.Array,
    mask: jax.Array,
    *,
    level: str = "token",
    cap: float = 2.0,
) -> jax.Array:
    """min(exp(logp_old - logp_sampler), cap), of each token or of its whole response.

    Args:
        old_log_probs: float [R, K], of the sampling policy as the trainer computes it.
        behavior_log_probs: [R, K], as the sampler computed it.
        response_id: int [R, K], number of the response in its row, in [0, K); read at
            the level `response` alone.
        mask: bool [R, K], True where a token is; elsewhere anything may stand.
        level: `token`; `response`: one weight, the exponential of the SUM over the
            response, which is the ratio of its probabilities; or `none`: 1.
        cap: C, > 0.

    Returns:
        float32 [R, K], in [e^-20, cap], without a gradient; 1 where `mask` is False.

    Raises:
        ValueError: an unknown level, a cap that is not above 0, or differing shapes.

    Source: truncated importance sampling as TRL and verl have it. Log-ratios, and
    their sum, are clamped to ±20.

    Example:
        >>> import jax.numpy as jnp
        >>> old = jnp.log(jnp.array([[0.6, 0.2]]))
        >>> sampler = jnp.log(jnp.array([[0.2, 0.4]]))
        >>> ids, mask = jnp.zeros((1, 2), int), jnp.ones((1, 2), bool)
        >>> weights = truncated_importance_weights(old, sampler, ids, mask)
        >>> [round(value, 4) for value in weights[0].tolist()]
        [2.0, 0.5]
        >>> weights = truncated_importance_weights(
        ...     old, sampler, ids, mask, level="response")
        >>> [round(value, 4) for value in weights[0].tolist()]
        [1.5, 1.5]
    """
    checks.check_choice("level", level, LEVELS)
    if not cap > 0:
        raise ValueError(f"cap must be above 0; got {cap}")
    checks.check_mask("mask", mask)
    checks.check_shape("old_log_probs", old_log_probs, "mask", mask.shape)
    checks.check_shape("behavior_log_probs", behavior_log_probs, "mask", mask.shape)
    if level == "none":
        return jnp.ones(mask.shape, jnp.float32)
    difference = old_log_probs.astype(jnp.float32) - behavior_log_probs
    difference = jnp.where(mask, jax.lax.stop_gradient(difference), 0.0)
    if level == "response":
        difference = response_sums(difference, response_id, mask)
    ratio = jnp.exp(jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    return jnp.minimum(ratio, cap)
