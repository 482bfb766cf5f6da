"""Whole algorithms: rewards of a tree -> advantages, as settings of the same parts."""

import jax

from rlvr_jax.credit import backups, checks
from rlvr_jax.credit.advantages import group_advantages
from rlvr_jax.credit.groups import prompt_groups, sibling_groups
from rlvr_jax.tree import TreeLayout

MURPHY_BACKUPS = ("mars", "mers")


def grpo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Own reward, normalised among siblings: A = (r - mean) / (std + ε).

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

    Source: GRPO (arXiv 2402.03300); the paper's tree has one turn.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = grpo(rewards, TreeLayout((4,)), rewards >= 0)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [1.5, -0.5, -0.5, -0.5]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, None)
    groups = sibling_groups(parents)
    return group_advantages(rewards, groups, node_mask, ddof=ddof, epsilon=epsilon)


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
