"""Whole algorithms on trees of several turns: rewards -> advantages."""

import jax

from rlvr_jax.credit import backups, checks
from rlvr_jax.credit.advantages import group_advantages
from rlvr_jax.credit.groups import prompt_groups, sibling_groups, stage_groups
from rlvr_jax.credit.recursion import first_turn, inherit
from rlvr_jax.credit.weights import calibrated_weights
from rlvr_jax.tree import TreeLayout

MURPHY_BACKUPS = ("mars", "mers")


def murphy(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    backup: str = "mars",
    discount: float = 0.9,
    solved: jax.Array | None = None,
    max_reward: float = 1.0,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Backed-up returns (MaRS or MeRS), normalised among siblings.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        backup: `mars` or `mers`.
        discount, solved, max_reward: of MeRS, see `mers`.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the standard deviation.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: as `mars` and `mers`, or an unknown backup.

    Source: Murphy (arXiv 2511.07833).

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[0.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.ones((1, 6), bool)
        >>> advantages = murphy(rewards, TreeLayout((2, 2)), mask, num_turns=2)
        >>> [round(value, 3) for value in advantages[0].tolist()]
        [-0.707, 0.707, 0.0, 0.0, 0.707, -0.707]
    """
    checks.check_choice("backup", backup, MURPHY_BACKUPS)
    if backup == "mars":
        returns = backups.mars(rewards, parents, node_mask, num_turns=num_turns)
    else:
        returns = backups.mers(
            rewards,
            parents,
            node_mask,
            num_turns=num_turns,
            discount=discount,
            solved=solved,
            max_reward=max_reward,
        )
    groups = sibling_groups(parents)
    return group_advantages(returns, groups, node_mask, ddof=ddof, epsilon=epsilon)


def reapo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Own reward, normalised over ALL attempts of all rollouts of a prompt.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the standard deviation.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: ReAPO, "Retry-Aware Policy Optimization for Efficient Exploration in LLM
    Reasoning".

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]])
        >>> mask = jnp.array([[True, True, True, True, False, True, True, True]])
        >>> advantages = reapo(rewards, TreeLayout((4, 1)), mask)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [1.069, -0.8018, -0.8018, -0.8018, 0.0, 1.069, -0.8018, 1.069]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, None)
    groups = prompt_groups(parents)
    return group_advantages(rewards, groups, node_mask, ddof=ddof, epsilon=epsilon)


def cal_grpo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    solved: jax.Array | None = None,
    max_reward: float = 1.0,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Own reward, normalised over attempts of the same number, times its calibration.

    A = w_k (r - mean) / (std + ε), w_k = product over later attempts j of (1 - p_j).

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        solved, max_reward: of the success rates, see `calibrated_weights`.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the standard deviation.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: CAL-GRPO (arXiv 2604.17912). The weight is exact for Ver@K with the true p
    and without the division by the std.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.array([[True, True, True, False, True, True]])
        >>> advantages = cal_grpo(rewards, TreeLayout((3, 1)), mask, num_turns=2)
        >>> [round(value, 3) for value in advantages[0].tolist()]
        [0.577, -0.289, -0.289, 0.0, 0.707, -0.707]
    """
    weights = calibrated_weights(
        rewards,
        parents,
        node_mask,
        num_turns=num_turns,
        solved=solved,
        max_reward=max_reward,
    )
    groups = stage_groups(parents, num_turns=num_turns)
    return weights * group_advantages(
        rewards,
        groups,
        node_mask,
        num_groups=num_turns,
        ddof=ddof,
        epsilon=epsilon,
    )


def multi_attempt_grpo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Best reward of each trajectory, normalised over trajectories; attempts share it.

    The moments are taken over the turn-0 nodes, so that a trajectory counts once
    however many attempts it has; its other attempts inherit the advantage.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        ddof: 1 or 0, of the standard deviation.
        epsilon: added to the standard deviation.

    Returns:
        Advantages, float32 [B, N]; 0 where absent or below an absent turn-0 node.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: multi-attempt RL (arXiv 2503.04808).

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]])
        >>> mask = jnp.array([[True, True, True, True, False, True, True, True]])
        >>> advantages = multi_attempt_grpo(
        ...     rewards, TreeLayout((4, 1)), mask, num_turns=2)
        >>> [round(value, 3) for value in advantages[0].tolist()]
        [0.5, 0.5, -1.5, 0.5, 0.0, 0.5, -1.5, 0.5]
    """
    returns = backups.trajectory(rewards, parents, node_mask, num_turns=num_turns)
    advantages = group_advantages(
        returns,
        sibling_groups(parents),
        first_turn(parents, node_mask),
        ddof=ddof,
        epsilon=epsilon,
    )
    return inherit(advantages, parents, node_mask, num_turns=num_turns)
