"""Credit assignment over rollout trees: pure, jit-able, vmap-able kernels.

Needs jax and numpy alone. `parents` is a `rlvr_jax.tree.TreeLayout`, or an int array
[N] or [B, N] of any forest in which a parent stands before its children. Absent nodes
(mask False) return 0 and influence nothing; their slots may hold anything.
"""

from rlvr_jax.credit.advantages import group_advantages
from rlvr_jax.credit.algorithms import grpo, murphy, reapo
from rlvr_jax.credit.assignment import GROUPS, Credit, CreditConfig, assign
from rlvr_jax.credit.backups import mars, mers
from rlvr_jax.credit.groups import prompt_groups, sibling_groups

__all__ = [
    "GROUPS",
    "Credit",
    "CreditConfig",
    "assign",
    "group_advantages",
    "grpo",
    "mars",
    "mers",
    "murphy",
    "prompt_groups",
    "reapo",
    "sibling_groups",
]
