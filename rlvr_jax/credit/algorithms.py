"""Whole algorithms that compare siblings: rewards of a tree -> advantages."""

from typing import Any

import jax

from rlvr_jax.credit import checks
from rlvr_jax.credit.advantages import group_advantages
from rlvr_jax.credit.groups import sibling_groups
from rlvr_jax.credit.weights import whiten
from rlvr_jax.tree import TreeLayout


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
    return _among_siblings(rewards, parents, node_mask, ddof=ddof, epsilon=epsilon)


def dr_grpo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
) -> jax.Array:
    """Own reward minus the mean of the siblings: A = r - mean.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: Dr.GRPO (arXiv 2503.20783). Its loss sums tokens over a constant length: the
    reduction `constant` of `rlvr_jax.objective`.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = dr_grpo(rewards, TreeLayout((4,)), rewards >= 0)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [0.75, -0.25, -0.25, -0.25]
    """
    return _among_siblings(rewards, parents, node_mask, scale="none")


def rloo(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
) -> jax.Array:
    """Own reward minus the mean of the OTHER siblings: A = n / (n - 1) (r - mean).

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: RLOO (arXiv 2402.14740).

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = rloo(rewards, TreeLayout((4,)), rewards >= 0)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [1.0, -0.3333, -0.3333, -0.3333]
    """
    return _among_siblings(
        rewards, parents, node_mask, baseline="leave_one_out", scale="none"
    )


def maxrl(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Own reward over the mean of the siblings: A = (r - mean) / (mean + ε).

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        epsilon: added to the mean.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: MaxRL (arXiv 2602.02710). With n siblings it follows the expansion of the
    likelihood truncated at order n - 1. Rewards must be >= 0.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = maxrl(rewards, TreeLayout((4,)), rewards >= 0, epsilon=0.0)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [3.0, -1.0, -1.0, -1.0]
    """
    return _among_siblings(rewards, parents, node_mask, scale="mean", epsilon=epsilon)


def reinforce_pp(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    response_lengths: jax.Array,
    epsilon: float = 1e-8,
) -> jax.Array:
    """Own reward minus the mean of the siblings, whitened over all trained tokens.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        response_lengths: int [B, N], trained tokens of each node.
        epsilon: added to the variance of the whitening.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: REINFORCE++ with the group baseline (arXiv 2501.03262). Members of an equal
    group start from 0 and still get the shift of the batch; see `whiten`.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = reinforce_pp(
        ...     rewards, TreeLayout((4,)), rewards >= 0, response_lengths=rewards + 1)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [1.2247, -0.8165, -0.8165, -0.8165]
    """
    checks.check_nodes("response_lengths", response_lengths, node_mask)
    centered = dr_grpo(rewards, parents, node_mask)
    return whiten(centered, response_lengths, node_mask, epsilon=epsilon)


def _among_siblings(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    **options: Any,
) -> jax.Array:
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, None)
    return group_advantages(rewards, sibling_groups(parents), node_mask, **options)
