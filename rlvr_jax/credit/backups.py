"""Backups: raw rewards of the nodes of a rollout tree -> returns.

Leaves and solved nodes keep their reward; the rules differ in what an unsolved node
gets from its children. Turns s = 1..S below; S is `num_turns`.
"""

import functools

import jax
import jax.numpy as jnp

from rlvr_jax.credit import checks
from rlvr_jax.credit.groups import stage_groups
from rlvr_jax.credit.recursion import descend, fold_children, known_slots
from rlvr_jax.tree import TreeLayout

SOLVED_TOLERANCE = 1e-6  # a reward this close to the maximum is the maximum


def mars(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
) -> jax.Array:
    """Max reward of the subtree: R(o) = max(r(o), max over children c of R(c)).

    An attempt that failed and was then repaired gets the full credit of an immediate
    solve.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.

    Returns:
        Returns, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: Murphy (arXiv 2511.07833), MaRS.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.5, 0.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.array([[True, True, False, False, True, True]])
        >>> mars(rewards, TreeLayout((2, 2)), mask, num_turns=2).tolist()
        [[1.0, 1.0, 0.0, 0.0, 1.0, 0.0]]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    returns = fold_children(
        (_present(rewards, node_mask),),
        node_mask,
        parents,
        num_turns=num_turns,
        kinds=("max",),
        combine=lambda own, below: jnp.maximum(own[0], below[0]),
    )
    return _present(returns, node_mask)


def mers(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    discount: float = 0.9,
    solved: jax.Array | None = None,
    max_reward: float = 1.0,
) -> jax.Array:
    """R(o) = (r(o) + γ mean over children of R) / (unsolved(o) (S - s) + 1).

    An unsolved node before the last turn that has no children (a budget ran out) has
    mean 0: R = r / (S - s + 1). A solved node keeps R = r even if it has children.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        discount: γ in [0, 1]; the paper does not give its value, 0.9 is ours.
        solved: bool [B, N], judged on the raw reward; default
            `rewards >= max_reward - 1e-6`.
        max_reward: reward of a solved node.

    Returns:
        Returns, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes, dtypes or discount, or an unordered forest (eager).

    Source: Murphy (arXiv 2511.07833), MeRS.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.5, 0.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.array([[True, True, False, False, True, True]])
        >>> returns = mers(rewards, TreeLayout((2, 2)), mask, num_turns=2, discount=0.9)
        >>> [round(value, 3) for value in returns[0].tolist()]
        [1.0, 0.475, 0.0, 0.0, 1.0, 0.0]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    checks.check_discount(discount)
    if solved is None:
        solved = is_solved(rewards, max_reward=max_reward)
    checks.check_bool("solved", solved)
    checks.check_nodes("solved", solved, node_mask)
    turns = node_turns(parents, node_mask, num_turns=num_turns)
    divisor = (num_turns - turns).astype(jnp.float32)
    returns = fold_children(
        (_present(rewards, node_mask), divisor, solved),
        node_mask,
        parents,
        num_turns=num_turns,
        kinds=("sum", "count"),
        combine=functools.partial(_mean_of_children, discount),
    )
    return _present(returns, node_mask)


def _mean_of_children(discount: float, own: tuple, below: tuple) -> jax.Array:
    (reward, divisor, solved), (total, count) = own, below
    backed_up = (reward + discount * total / jnp.maximum(count, 1.0)) / divisor
    return jnp.where(solved, reward, backed_up)


def trajectory(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
) -> jax.Array:
    """Best reward of a trajectory, for each of its attempts: R(o) = max r in the tree
    of o's turn-0 ancestor.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.

    Returns:
        Returns, float32 [B, N]; 0 where absent. On a layout an absent node still joins
        what is above and below it; in a parents array it cuts the tree there.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: multi-attempt RL (arXiv 2503.04808). On a chain this is the best attempt;
    on a wider tree, where the paper is silent, the best of all branches.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[1.0, 0.5, 0.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.array([[True, True, False, False, True, True]])
        >>> trajectory(rewards, TreeLayout((2, 2)), mask, num_turns=2).tolist()
        [[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    linked = known_slots(parents, node_mask)
    best = fold_children(
        (jnp.where(node_mask, rewards, -jnp.inf).astype(jnp.float32),),
        linked,
        parents,
        num_turns=num_turns,
        kinds=("max",),
        combine=lambda own, below: jnp.maximum(own[0], below[0]),
    )
    returns = descend(
        best,
        parents,
        linked,
        num_turns=num_turns,
        combine=lambda own, above: above,
    )
    return _present(returns, node_mask)


def is_solved(rewards: jax.Array, *, max_reward: float) -> jax.Array:
    """`rewards >= max_reward - 1e-6`: bool of the shape of `rewards`."""
    return rewards >= max_reward - SOLVED_TOLERANCE


def node_turns(
    parents: TreeLayout | jax.Array, node_mask: jax.Array, *, num_turns: int
) -> jax.Array:
    """0-based turn of each node, int32 [B, N]; 0 where absent.

    In a parents array an absent parent counts as turn 0, since its own slot may hold
    anything; a layout knows the turn of every slot.
    """
    if not isinstance(parents, TreeLayout):
        parents = jnp.broadcast_to(parents, node_mask.shape)
        parents = jnp.where(node_mask, parents, -1)
    turns = stage_groups(parents, num_turns=num_turns)
    return jnp.where(node_mask, jnp.broadcast_to(turns, node_mask.shape), 0)


def _present(values: jax.Array, node_mask: jax.Array) -> jax.Array:
    return jnp.where(node_mask, values, 0.0).astype(jnp.float32)
