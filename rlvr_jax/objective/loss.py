"""The training loss over target tokens, with its metrics as sums."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlvr_jax.objective import checks
from rlvr_jax.objective.kl import k1, k2, k3
from rlvr_jax.objective.mismatch import LEVELS, truncated_importance_weights
from rlvr_jax.objective.surrogates import (
    cispo,
    clip,
    gspo,
    log_ratio,
    reinforce,
    response_log_ratio,
)


@dataclasses.dataclass(frozen=True)
class TargetTokens:
    """What the loss reads of each target: R rows, K targets each.

    Whatever stands outside `loss_mask`, NaN included, has no effect.

    Attributes:
        log_probs: float [R, K] of the policy that is trained; differentiated.
        old_log_probs: [R, K], where the ratio starts; None: the policy itself (ratio
            1, right for the first update after sampling alone).
        behavior_log_probs: [R, K], of the sampler.
        ref_log_probs: [R, K]; None without a reference policy.
        entropies: [R, K], of the next token, differentiated; None without that term.
        advantages: [R, K], used as they are: nothing is normalised a second time.
        weights: [R, K], of `token_weights`.
        response_id: int [R, K], number of the response in its row, in [0, K).
        loss_mask: bool [R, K].
    """

    log_probs: jax.Array
    old_log_probs: jax.Array | None
    behavior_log_probs: jax.Array
    ref_log_probs: jax.Array | None
    entropies: jax.Array | None
    advantages: jax.Array
    weights: jax.Array
    response_id: jax.Array
    loss_mask: jax.Array

    def masked(self) -> "TargetTokens":
        """Checked, with 0 outside the mask and the old policy filled in.

        Raises:
            ValueError: a shape or a dtype is wrong; the message names the field.
        """
        checks.check_mask("loss_mask", self.loss_mask)
        checks.check_integers("response_id", self.response_id)
        clean = {}
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            if values is None:
                continue
            shape = self.loss_mask.shape
            checks.check_shape(field.name, values, "loss_mask", shape)
            # The INPUTS are masked: 0 x inf would be NaN in the gradient.
            values = jnp.asarray(values)
            zero = jnp.zeros((), values.dtype)
            clean[field.name] = jnp.where(self.loss_mask, values, zero)
        clean.setdefault("old_log_probs", jax.lax.stop_gradient(clean["log_probs"]))
        return dataclasses.replace(self, **clean)


class Bounds(NamedTuple):
    """Of a ratio, see `clip`."""

    low: float
    high: float
    dual: float | None


# Each surrogate gives the loss of each token, and says whose gradient its bounds
# changed: (loss, at the lower bound, at the upper bound), all [R, K].
_Terms = tuple[jax.Array, jax.Array, jax.Array]


def _reinforce(tokens: TargetTokens, bounds: Bounds) -> _Terms:
    loss = reinforce(tokens.log_probs, tokens.old_log_probs, tokens.advantages)
    nobody = jnp.zeros_like(tokens.loss_mask)
    return loss, nobody, nobody


def _clip(tokens: TargetTokens, bounds: Bounds) -> _Terms:
    arrays = (tokens.log_probs, tokens.old_log_probs)
    loss = clip(
        *arrays,
        tokens.advantages,
        clip_low=bounds.low,
        clip_high=bounds.high,
        dual_clip=bounds.dual,
    )
    return loss, *_outside(log_ratio(*arrays), tokens.advantages, bounds)


def _gspo(tokens: TargetTokens, bounds: Bounds) -> _Terms:
    arrays = (tokens.log_probs, tokens.old_log_probs)
    places = (tokens.response_id, tokens.loss_mask)
    loss = gspo(
        *arrays,
        tokens.advantages,
        *places,
        clip_low=bounds.low,
        clip_high=bounds.high,
        dual_clip=bounds.dual,
    )
    ratio = response_log_ratio(*arrays, *places)
    return loss, *_outside(ratio, tokens.advantages, bounds)


def _cispo(tokens: TargetTokens, bounds: Bounds) -> _Terms:
    arrays = (tokens.log_probs, tokens.old_log_probs)
    loss = cispo(*arrays, tokens.advantages, clip_high=bounds.high)
    high = jnp.exp(log_ratio(*arrays)) > 1.0 + bounds.high
    return loss, jnp.zeros_like(high), high & (tokens.advantages != 0)


def _outside(
    log_ratios: jax.Array, advantages: jax.Array, bounds: Bounds
) -> tuple[jax.Array, jax.Array]:
    ratio = jnp.exp(log_ratios)
    low = (ratio < 1.0 - bounds.low) & (advantages < 0)
    high = (ratio > 1.0 + bounds.high) & (advantages > 0)
    return low, high


SURROGATES: dict[str, Callable[[TargetTokens, Bounds], _Terms]] = {
    "reinforce": _reinforce,
    "clip": _clip,
    "gspo": _gspo,
    "cispo": _cispo,
}
DIVERGENCES = {"k2": k2, "k3": k3}


def policy_loss(
    tokens: TargetTokens,
    *,
    surrogate: str = "clip",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    kl: str = "k3",
    kl_coefficient: float = 0.0,
    entropy_coefficient: float = 0.0,
    tis: str = "none",
    tis_cap: float = 2.0,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Σ weights (tis x surrogate + β kl - η entropy) under the loss mask.

    Args:
        tokens: the targets.
        surrogate: `reinforce`, `clip`, `gspo` or `cispo`.
        clip_low, clip_high, dual_clip: of `clip` and `gspo`; `cispo` reads `clip_high`.
        kl: `k2` or `k3`; k1 is reported beside it.
        kl_coefficient: β >= 0; needs `ref_log_probs` unless 0.
        entropy_coefficient: η >= 0; needs `entropies` unless 0.
        tis, tis_cap: level and cap of `truncated_importance_weights`.

    Returns:
        (loss, sums): a scalar, and scalars that add up over rows, micro-batches and
        devices: `tokens`, `policy`, `clip_low`, `clip_high` (tokens whose gradient a
        bound changed) and `gap` (of sampler and trainer, in nats); `kl` and `kl_k1`
        with a reference, `entropy` with entropies, `tis_weight` and `tis_capped` with
        such weights.

    Raises:
        ValueError: a setting outside its range, a term without what it reads, or a
            field of `tokens` with a wrong shape or dtype.

    Example:
        >>> x, ids = jnp.ones((1, 2)), jnp.zeros((1, 2), int)
        >>> tokens = TargetTokens(-x, None, -x, None, None, x, x / 2, ids, x > 0)
        >>> loss, sums = policy_loss(tokens)
        >>> float(loss), float(sums["tokens"])
        (-1.0, 2.0)
    """
    checks.check_choice("surrogate", surrogate, SURROGATES)
    _check_terms(tokens, kl, kl_coefficient, entropy_coefficient)
    tokens = tokens.masked()
    bounds = Bounds(clip_low, clip_high, dual_clip)
    policy, counted = _policy(tokens, surrogate, bounds, tis, tis_cap)
    penalty, more = _penalty(tokens, kl, kl_coefficient, entropy_coefficient)
    sums = {
        name: jnp.where(tokens.loss_mask, values, 0).sum(dtype=jnp.float32)
        for name, values in (counted | more).items()
    }
    sums["policy"] = (tokens.weights * policy).sum()
    sums["tokens"] = tokens.loss_mask.sum(dtype=jnp.float32)
    loss = sums["policy"] + (tokens.weights * penalty).sum()
    return loss, jax.tree.map(jax.lax.stop_gradient, sums)


def _policy(
    tokens: TargetTokens, surrogate: str, bounds: Bounds, tis: str, tis_cap: float
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """tis x surrogate of each token, and what there is to count of it."""
    checks.check_bounds(*bounds)
    checks.check_choice("tis", tis, LEVELS)
    if not tis_cap > 0:
        raise ValueError(f"tis_cap must be above 0; got {tis_cap}")
    policy, low, high = SURROGATES[surrogate](tokens, bounds)
    gap = jnp.abs(tokens.log_probs - tokens.behavior_log_probs)
    counted = {"clip_low": low, "clip_high": high, "gap": gap}
    if tis == "none":
        return policy, counted
    trust = truncated_importance_weights(
        tokens.old_log_probs,
        tokens.behavior_log_probs,
        tokens.response_id,
        tokens.loss_mask,
        level=tis,
        cap=tis_cap,
    )
    counted |= {"tis_weight": trust, "tis_capped": trust >= tis_cap}
    return trust * policy, counted


def _penalty(
    tokens: TargetTokens,
    kl: str,
    kl_coefficient: float,
    entropy_coefficient: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """β kl - η entropy of each token, and what there is to report of them."""
    penalty, reported = jnp.zeros_like(tokens.weights), {}
    if tokens.ref_log_probs is not None:
        arrays = (tokens.log_probs, tokens.ref_log_probs)
        reported["kl"] = DIVERGENCES[kl](*arrays)
        reported["kl_k1"] = k1(*arrays)
        penalty += kl_coefficient * reported["kl"]
    if tokens.entropies is not None:
        reported["entropy"] = tokens.entropies
        penalty -= entropy_coefficient * tokens.entropies
    return penalty, reported


def _check_terms(
    tokens: TargetTokens,
    kl: str,
    kl_coefficient: float,
    entropy_coefficient: float,
) -> None:
    """Raises ValueError for a term that is unknown, negative or lacks its input."""
    if kl == "k1":
        raise ValueError(
            "kl must be one of ('k2', 'k3'); got 'k1', which has a sign and is"
            " no loss: it is reported as kl_k1 wherever there is a reference"
        )
    checks.check_choice("kl", kl, DIVERGENCES)
    checks.check_at_least("kl_coefficient", kl_coefficient, 0.0)
    checks.check_at_least("entropy_coefficient", entropy_coefficient, 0.0)
    if kl_coefficient and tokens.ref_log_probs is None:
        raise ValueError(
            f"kl_coefficient {kl_coefficient} needs ref_log_probs; got None"
        )
    if entropy_coefficient and tokens.entropies is None:
        raise ValueError(
            f"entropy_coefficient {entropy_coefficient} needs entropies; got None"
        )
