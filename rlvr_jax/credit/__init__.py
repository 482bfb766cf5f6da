"""Credit assignment over rollout trees: pure, jit-able, vmap-able kernels.

Needs jax and numpy alone. `parents` is a `rlvr_jax.tree.TreeLayout`, or an int array
[N] or [B, N] of any forest in which a parent stands before its children. Absent nodes
(mask False) return 0 and influence nothing; their slots may hold anything.
"""

from rlvr_jax.credit.advantages import group_advantages
from rlvr_jax.credit.algorithms import dr_grpo, grpo, maxrl, reinforce_pp, rloo
from rlvr_jax.credit.assignment import Credit, CreditConfig, assign
from rlvr_jax.credit.backups import mars, mers, trajectory
from rlvr_jax.credit.groups import prompt_groups, sibling_groups, stage_groups
from rlvr_jax.credit.pruning import prune_inter, prune_intra
from rlvr_jax.credit.retry_algorithms import (
    cal_grpo,
    multi_attempt_grpo,
    murphy,
    reapo,
)
from rlvr_jax.credit.shaping import progress_bonus
from rlvr_jax.credit.weights import calibrated_weights, whiten

__all__ = [
    "Credit",
    "CreditConfig",
    "assign",
    "cal_grpo",
    "calibrated_weights",
    "dr_grpo",
    "group_advantages",
    "grpo",
    "mars",
    "maxrl",
    "mers",
    "multi_attempt_grpo",
    "murphy",
    "progress_bonus",
    "prompt_groups",
    "prune_inter",
    "prune_intra",
    "reapo",
    "reinforce_pp",
    "rloo",
    "sibling_groups",
    "stage_groups",
    "trajectory",
    "whiten",
]
