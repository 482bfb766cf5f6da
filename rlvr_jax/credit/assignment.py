"""Credit of a whole tree under one configuration."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlvr_jax.credit import backups, checks
from rlvr_jax.credit.advantages import BASELINES, SCALES, group_advantages
from rlvr_jax.credit.groups import prompt_groups, sibling_groups
from rlvr_jax.tree import RolloutTree, TreeLayout

BACKUPS = ("own", "mars", "mers")
GROUPS = {"sibling": sibling_groups, "prompt": prompt_groups}


@dataclasses.dataclass(frozen=True)
class CreditConfig:
    """How rewards become advantages.

    Attributes:
        backup: raw rewards -> returns: `own`, `mars` or `mers`.
        discount: γ of `mers`, in [0, 1].
        group: whose returns are compared: `sibling` (children of one context) or
            `prompt` (all attempts of a prompt).
        baseline: `mean`, `leave_one_out` or `none`.
        scale: `std`, `mean` or `none`.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the scale, > 0.
    """

    backup: str = "own"
    discount: float = 0.9
    group: str = "sibling"
    baseline: str = "mean"
    scale: str = "std"
    ddof: int = 1
    epsilon: float = 1e-6

    def check(self) -> None:
        """Raises ValueError that names the first field with an impossible value."""
        checks.check_choice("backup", self.backup, BACKUPS)
        checks.check_choice("group", self.group, GROUPS)
        checks.check_choice("baseline", self.baseline, BASELINES)
        checks.check_choice("scale", self.scale, SCALES)
        checks.check_discount(self.discount)
        if self.ddof not in (0, 1):
            raise ValueError(f"ddof must be 0 or 1; got {self.ddof}")
        if not self.epsilon > 0:
            raise ValueError(f"epsilon must be > 0; got {self.epsilon}")


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["returns", "advantages", "keep_mask"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class Credit:
    """What `assign` found for each node.

    Attributes:
        returns: float32 [B, N], backed-up rewards; 0 where absent.
        advantages: float32 [B, N]; 0 where absent, pruned or without signal.
        keep_mask: bool [B, N], nodes that count in the loss and its normalisers.
    """

    returns: jax.Array
    advantages: jax.Array
    keep_mask: jax.Array


def assign(tree: RolloutTree, config: CreditConfig) -> Credit:
    """Returns and advantages of every node of `tree`.

    Args:
        tree: only `layout`, `node_mask`, `rewards` and `solved` are read.
        config: the rule.

    Returns:
        `Credit` of arrays [B, N].

    Raises:
        ValueError: a field of `config` has an impossible value.

    Example:
        >>> import numpy as np
        >>> from rlvr_jax.tree import TreeLayout, empty_tree
        >>> tree = empty_tree(TreeLayout((4,)), num_prompts=1, prompt_length=1,
        ...                   response_length=1, feedback_length=0)
        >>> tree.node_mask[:] = True
        >>> tree.rewards[:] = [1, 0.5, 0.5, 0]
        >>> credit = assign(tree, CreditConfig(scale="none"))
        >>> credit.advantages.round(3).tolist()
        [[0.5, 0.0, 0.0, -0.5]]
    """
    config.check()
    return _assign(tree.rewards, tree.solved, tree.node_mask, tree.layout, config)


@functools.partial(jax.jit, static_argnames=("layout", "config"))
def _assign(
    rewards: jax.Array,
    solved: jax.Array,
    node_mask: jax.Array,
    layout: TreeLayout,
    config: CreditConfig,
) -> Credit:
    num_turns = layout.num_turns
    if config.backup == "mars":
        returns = backups.mars(rewards, layout, node_mask, num_turns=num_turns)
    elif config.backup == "mers":
        returns = backups.mers(
            rewards,
            layout,
            node_mask,
            num_turns=num_turns,
            discount=config.discount,
            solved=solved,
        )
    else:
        returns = jnp.where(node_mask, rewards, 0.0)
    advantages = group_advantages(
        returns,
        GROUPS[config.group](layout),
        node_mask,
        baseline=config.baseline,
        scale=config.scale,
        ddof=config.ddof,
        epsilon=config.epsilon,
    )
    return Credit(returns=returns, advantages=advantages, keep_mask=node_mask)
