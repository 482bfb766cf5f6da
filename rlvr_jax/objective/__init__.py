"""Policy losses and their reductions: pure, needs jax and numpy alone."""

from rlvr_jax.objective.entropies import entropy
from rlvr_jax.objective.kl import k1, k2, k3
from rlvr_jax.objective.loss import TargetTokens, policy_loss
from rlvr_jax.objective.mismatch import truncated_importance_weights
from rlvr_jax.objective.reductions import token_weights, weight_shares
from rlvr_jax.objective.responses import response_means, response_sums
from rlvr_jax.objective.shaping import overlong_penalty
from rlvr_jax.objective.surrogates import cispo, clip, gspo, reinforce

__all__ = [
    "TargetTokens",
    "cispo",
    "clip",
    "entropy",
    "gspo",
    "k1",
    "k2",
    "k3",
    "overlong_penalty",
    "policy_loss",
    "reinforce",
    "response_means",
    "response_sums",
    "token_weights",
    "truncated_importance_weights",
    "weight_shares",
]
