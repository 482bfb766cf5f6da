"""The training loss over target tokens, with its metrics as sums."""

import jax
import jax.numpy as jnp

from rlvr_jax.objective.kl import k3
from rlvr_jax.objective.surrogates import clip, log_ratio, reinforce

SURROGATES = ("reinforce", "clip")


def policy_loss(
    log_probs: jax.Array,
    *,
    old_log_probs: jax.Array | None,
    behavior_log_probs: jax.Array,
    ref_log_probs: jax.Array | None,
    advantages: jax.Array,
    weights: jax.Array,
    loss_mask: jax.Array,
    surrogate: str = "clip",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    kl_coefficient: float = 0.0,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Σ weights (surrogate + kl_coefficient k3) over the tokens under `loss_mask`.

    Args:
        log_probs: float [R, K] of the policy that is trained; differentiated.
        old_log_probs: [R, K], where the ratio starts; None: the policy itself (ratio
            1, right for the first update after sampling alone).
        behavior_log_probs: [R, K], of the sampler.
        ref_log_probs: [R, K]; None without a reference policy.
        advantages: [R, K], used as they are: nothing is normalised a second time.
        weights: [R, K], of `token_weights`.
        loss_mask: bool [R, K]; whatever stands elsewhere, NaN included, has no effect.
        surrogate: `reinforce` or `clip`.
        clip_low, clip_high, dual_clip: of `clip`.
        kl_coefficient: β >= 0; needs `ref_log_probs` unless 0.

    Returns:
        (loss, sums): a scalar, and scalars that add up over rows, micro-batches and
        devices: `tokens`, `policy`, `clip_low`, `clip_high`, `gap` (of sampler and
        trainer, in nats), and `kl` where there is a reference.

    Raises:
        ValueError: an unknown surrogate, or a KL term without reference.
    """
    if surrogate not in SURROGATES:
        raise ValueError(f"surrogate must be one of {SURROGATES}; got {surrogate!r}")
    if kl_coefficient and ref_log_probs is None:
        raise ValueError(
            f"kl_coefficient {kl_coefficient} needs ref_log_probs; got None"
        )

    def masked(values: jax.Array) -> jax.Array:
        # The INPUTS are masked: 0 x inf would be NaN in the gradient.
        return jnp.where(loss_mask, values, 0.0)

    log_probs, behavior_log_probs = masked(log_probs), masked(behavior_log_probs)
    advantages, weights = masked(advantages), masked(weights)
    if old_log_probs is None:
        old_log_probs = jax.lax.stop_gradient(log_probs)
    old_log_probs = masked(old_log_probs)

    if surrogate == "reinforce":
        policy = reinforce(log_probs, old_log_probs, advantages)
    else:
        policy = clip(
            log_probs,
            old_log_probs,
            advantages,
            clip_low=clip_low,
            clip_high=clip_high,
            dual_clip=dual_clip,
        )
    loss = weights * policy
    sums = {"policy": loss.sum()}
    if ref_log_probs is not None:
        divergence = k3(log_probs, masked(ref_log_probs))
        loss = loss + kl_coefficient * weights * divergence
        sums["kl"] = masked(divergence).sum()
    ratio = jnp.exp(log_ratio(log_probs, old_log_probs))
    low = (ratio < 1.0 - clip_low) & (advantages < 0)
    high = (ratio > 1.0 + clip_high) & (advantages > 0)
    gap = jnp.abs(log_probs - behavior_log_probs)
    sums |= {
        "tokens": loss_mask.sum().astype(jnp.float32),
        "clip_low": masked(low.astype(jnp.float32)).sum(),
        "clip_high": masked(high.astype(jnp.float32)).sum(),
        "gap": masked(gap).sum(),
    }
    return loss.sum(), jax.tree.map(jax.lax.stop_gradient, sums)
