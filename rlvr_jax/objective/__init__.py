"""Policy losses and their reductions: pure, needs jax and numpy alone."""

from rlvr_jax.objective.kl import k3
from rlvr_jax.objective.loss import policy_loss
from rlvr_jax.objective.reductions import token_weights, weight_shares
from rlvr_jax.objective.surrogates import clip, reinforce

__all__ = [
    "clip",
    "k3",
    "policy_loss",
    "reinforce",
    "token_weights",
    "weight_shares",
]
