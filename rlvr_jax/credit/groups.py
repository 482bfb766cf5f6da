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
    if isinstance(parents, TreeLayout):
        return parents.parents + 1
    return parents + 1


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
    if isinstance(parents, TreeLayout):
        parents = parents.parents
    return (
        np.zeros_like(parents)
        if isinstance(parents, np.ndarray)
        else (jnp.zeros_like(parents))
    )
