"""Groups whose members are compared with each other; ids live inside one row b.

On a `TreeLayout` or a NumPy array the ids stay NumPy, so that `group_advantages` sees
the structure when it is traced and reshapes instead of scattering.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.tree import TreeLayout


def sibling_groups(parents: TreeLayout | np.ndarray | jax.Array) -> jax.Array:
    """Children of one context: id = parent + 1, and 0 for the prompt's own children.

    Args:
        parents: `TreeLayout`, or int [N] or [B, N].

    Returns:
        Ids of the shape of `parents` ([N] for a layout), in [0, N].

    Source: Murphy (arXiv 2511.07833): never pooled over the turn or the tree.

    Example:
        >>> from rlvr_jax.tree import TreeLayout
        >>> sibling_groups(TreeLayout((2, 2))).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    return _slots_of(parents) + 1


def prompt_groups(parents: TreeLayout | np.ndarray | jax.Array) -> jax.Array:
    """All attempts of one prompt: id = 0 for every node.

    Args:
        parents: `TreeLayout`, or int [N] or [B, N].

    Returns:
        Zeros of the shape of `parents` ([N] for a layout).

    Source: ReAPO, one advantage per attempt, pooled over all attempts of a problem.

    Example:
        >>> from rlvr_jax.tree import TreeLayout
        >>> prompt_groups(TreeLayout((2, 1))).tolist()
        [0, 0, 0, 0]
    """
    parents = _slots_of(parents)
    xp = np if isinstance(parents, np.ndarray) else jnp
    return xp.zeros_like(parents)


def stage_groups(
    parents: TreeLayout | np.ndarray | jax.Array, *, num_turns: int
) -> np.ndarray | jax.Array:
    """Attempts with the same number: id = turn, 0-based.

    Args:
        parents: `TreeLayout`, or int [N] or [B, N]; padding may hold anything.
        num_turns: S, at least the depth of the forest.

    Returns:
        Ids of the shape of `parents` ([N] for a layout), in [0, num_turns).

    Raises:
        ValueError: `num_turns` is below 1 or below the turns of a layout.

    Source: stage-wise advantages, CAL-GRPO (2604.17912): attempt k is compared with
    attempt k of the rollouts that reached it.

    Example:
        >>> from rlvr_jax.tree import TreeLayout
        >>> stage_groups(TreeLayout((2, 2)), num_turns=2).tolist()
        [0, 0, 1, 1, 1, 1]
    """
    if num_turns < 1:
        raise ValueError(f"num_turns must be >= 1; got {num_turns}")
    if isinstance(parents, TreeLayout):
        if parents.num_turns > num_turns:
            raise ValueError(
                f"num_turns must be at least the turns of the layout,"
                f" {parents.num_turns}; got {num_turns}"
            )
        return parents.turns
    xp = np if isinstance(parents, np.ndarray) else jnp
    above = xp.clip(parents, 0, parents.shape[-1] - 1)
    turns = xp.zeros_like(parents)
    for _ in range(num_turns - 1):
        turns = xp.where(parents >= 0, xp.take_along_axis(turns, above, -1) + 1, 0)
    return turns


def _slots_of(parents: TreeLayout | np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    return parents.parents if isinstance(parents, TreeLayout) else parents
