"""Credit of a whole tree under one configuration."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.credit import backups, checks, pruning
from rlvr_jax.credit.advantages import BASELINES, SCALES, group_advantages
from rlvr_jax.credit.groups import prompt_groups, sibling_groups, stage_groups
from rlvr_jax.credit.recursion import first_turn, inherit
from rlvr_jax.credit.shaping import MAX_TURNS, progress_bonus
from rlvr_jax.credit.weights import calibrated_weights, whiten
from rlvr_jax.tree import RolloutTree, TreeLayout

BACKUPS = ("own", "mars", "mers", "trajectory")
GROUPS = ("sibling", "prompt", "stage")
LEVELS = ("attempt", "trajectory")
WEIGHTS = ("none", "calibrated")
PRUNINGS = {"inter": pruning.prune_inter, "intra": pruning.prune_intra}
PRUNE_SCORES = ("returns", "raw")
MOMENTS = ("survivors", "all")


@dataclasses.dataclass(frozen=True)
class CreditConfig:
    """How rewards become advantages. Steps in this order, each with its own switch.

    Attributes:
        progress_bonus: α of `progress_bonus`, >= 0; 0: none. Needs two turns.
        backup: rewards -> returns: `own`, `mars`, `mers` or `trajectory`.
        discount: γ of `mers`, in [0, 1].
        pruning: `none`, `inter` (groups of a turn) or `intra` (members of a group).
        prune_budget: groups per prompt and turn, or members per group; >= 1 if pruning.
        prune_score: whose spread decides: `returns` or `raw` rewards.
        moments: nodes that baseline and scale are taken over: `survivors` of the
            pruning, or `all`.
        group: whose returns are compared: `sibling` (children of one context),
            `prompt` (all attempts of a prompt) or `stage` (attempts of one number).
        level: who is compared: every `attempt`, or each `trajectory` once, by the
            return of its turn-0 node, whose advantage its later attempts inherit.
        baseline: `mean`, `leave_one_out` or `none`.
        scale: `std`, `mean` or `none`.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the scale, > 0.
        weight: `none` or `calibrated` (later attempts discount earlier ones).
        whiten: mean 0 and variance 1 over all trained tokens of the batch.
    """

    progress_bonus: float = 0.0
    backup: str = "own"
    discount: float = 0.9
    pruning: str = "none"
    prune_budget: int = 0
    prune_score: str = "returns"
    moments: str = "survivors"
    group: str = "sibling"
    level: str = "attempt"
    baseline: str = "mean"
    scale: str = "std"
    ddof: int = 1
    epsilon: float = 1e-6
    weight: str = "none"
    whiten: bool = False

    def check(self) -> None:
        """Raises ValueError that names the first field with an impossible value."""
        for name, choices in (
            ("backup", BACKUPS),
            ("pruning", ("none", *PRUNINGS)),
            ("prune_score", PRUNE_SCORES),
            ("moments", MOMENTS),
            ("group", GROUPS),
            ("level", LEVELS),
            ("baseline", BASELINES),
            ("scale", SCALES),
            ("weight", WEIGHTS),
        ):
            checks.check_choice(name, getattr(self, name), choices)
        checks.check_alpha("progress_bonus", self.progress_bonus)
        checks.check_discount(self.discount)
        checks.check_ddof(self.ddof)
        if not self.epsilon > 0:
            raise ValueError(f"epsilon must be > 0; got {self.epsilon}")
        if self.pruning != "none":
            checks.check_budget("prune_budget", self.prune_budget)
        elif self.prune_budget:
            raise ValueError(
                "prune_budget must be 0 without pruning; got"
                f" {self.prune_budget}: set pruning to 'inter' or 'intra'"
            )

    def check_layout(self, layout: TreeLayout) -> None:
        """Raises ValueError unless the rule works on trees of this layout."""
        if self.progress_bonus and layout.num_turns != MAX_TURNS:
            raise ValueError(
                f"progress_bonus must be 0 unless branching has {MAX_TURNS} turns;"
                f" got {self.progress_bonus} for branching {layout.branching}"
            )

    def groups(self, layout: TreeLayout) -> np.ndarray:
        """Ids int [N] of the groups whose returns this rule compares."""
        if self.group == "stage":
            return stage_groups(layout, num_turns=layout.num_turns)
        return {"sibling": sibling_groups, "prompt": prompt_groups}[self.group](layout)


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
        keep_mask: bool [B, N], nodes that count in the loss and its normalisers:
            present and not pruned, with or without a signal.
    """

    returns: jax.Array
    advantages: jax.Array
    keep_mask: jax.Array


def assign(tree: RolloutTree, config: CreditConfig) -> Credit:
    """Returns and advantages of every node of `tree`.

    Args:
        tree: `layout`, `node_mask`, `rewards`, `solved` and, for whitening,
            `response_lengths` are read.
        config: the rule.

    Returns:
        `Credit` of arrays [B, N].

    Raises:
        ValueError: a field of `config` has an impossible value, or does not go with
            the layout.

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
    config.check_layout(tree.layout)
    return _assign(
        tree.rewards,
        tree.solved,
        tree.node_mask,
        tree.response_lengths,
        tree.layout,
        config,
    )


@functools.partial(jax.jit, static_argnames=("layout", "config"))
def _assign(
    rewards: jax.Array,
    solved: jax.Array,
    node_mask: jax.Array,
    response_lengths: jax.Array,
    layout: TreeLayout,
    config: CreditConfig,
) -> Credit:
    returns = _returns(rewards, solved, node_mask, layout, config)
    keep_mask = node_mask
    if config.pruning != "none":
        keep_mask = PRUNINGS[config.pruning](
            returns if config.prune_score == "returns" else rewards,
            layout,
            node_mask,
            num_turns=layout.num_turns,
            budget=config.prune_budget,
        )
    counted = keep_mask if config.moments == "survivors" else node_mask
    advantages = _compared(returns, counted, layout, config)
    if config.weight == "calibrated":
        # Success rates are the policy's: pruned attempts were sampled like the others.
        advantages = advantages * calibrated_weights(
            rewards, layout, node_mask, num_turns=layout.num_turns, solved=solved
        )
    advantages = jnp.where(keep_mask, advantages, 0.0)
    if config.whiten:
        advantages = whiten(advantages, response_lengths, keep_mask)
    return Credit(returns=returns, advantages=advantages, keep_mask=keep_mask)


def _returns(
    rewards: jax.Array,
    solved: jax.Array,
    node_mask: jax.Array,
    layout: TreeLayout,
    config: CreditConfig,
) -> jax.Array:
    """Shaped and backed-up rewards."""
    num_turns = layout.num_turns
    if config.progress_bonus:
        rewards = progress_bonus(
            rewards, layout, node_mask, alpha=config.progress_bonus
        )
    if config.backup == "mars":
        return backups.mars(rewards, layout, node_mask, num_turns=num_turns)
    if config.backup == "mers":
        return backups.mers(
            rewards,
            layout,
            node_mask,
            num_turns=num_turns,
            discount=config.discount,
            solved=solved,
        )
    if config.backup == "trajectory":
        return backups.trajectory(rewards, layout, node_mask, num_turns=num_turns)
    return jnp.where(node_mask, rewards, 0.0).astype(jnp.float32)


def _compared(
    returns: jax.Array, counted: jax.Array, layout: TreeLayout, config: CreditConfig
) -> jax.Array:
    """Advantages of the counted nodes by group, baseline, scale and level."""
    trajectories = config.level == "trajectory"
    advantages = group_advantages(
        returns,
        config.groups(layout),
        first_turn(layout, counted) if trajectories else counted,
        baseline=config.baseline,
        scale=config.scale,
        ddof=config.ddof,
        epsilon=config.epsilon,
    )
    if trajectories:
        return inherit(advantages, layout, counted, num_turns=layout.num_turns)
    return advantages
