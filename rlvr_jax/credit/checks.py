"""Eager argument checks of the credit kernels; tracers pass unchecked."""

from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from rlvr_jax.tree import NO_PARENT, TreeLayout


def is_concrete(*arrays: Any) -> bool:
    """True if every array holds values now, that is outside of jit, vmap and grad."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}; got {value!r}")


def check_discount(discount: float) -> None:
    """Raises ValueError unless a concrete `discount` lies in [0, 1]."""
    if is_concrete(discount) and not 0.0 <= float(discount) <= 1.0:
        raise ValueError(f"discount must be in [0, 1]; got {discount}")


def check_ddof(ddof: int) -> None:
    """Raises ValueError unless `ddof` is 0 or 1."""
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 or 1; got {ddof}")


def check_budget(name: str, budget: int) -> None:
    """Raises ValueError unless `budget` is an integer >= 1."""
    whole = isinstance(budget, int | np.integer) and not isinstance(budget, bool)
    if not whole or budget < 1:
        raise ValueError(
            f"{name} must be an integer >= 1, what pruning keeps; got {budget!r}"
        )


def check_alpha(name: str, alpha: float) -> None:
    """Raises ValueError unless a concrete `alpha` is >= 0 and finite."""
    if is_concrete(alpha) and not 0.0 <= float(alpha) < np.inf:
        raise ValueError(f"{name} must be >= 0 and finite; got {alpha}")


def check_not_negative(name: str, values: Any, mask: Any) -> None:
    """Raises ValueError unless concrete `values` are >= 0 where `mask` is True."""
    if not is_concrete(values, mask):
        return
    present = np.asarray(values)[np.asarray(mask)]
    wrong = present[~(present >= 0)]
    if wrong.size:
        raise ValueError(f"{name} must be >= 0 where mask is True; got {wrong[0]}")


def check_bool(name: str, values: Any) -> None:
    """Raises ValueError unless `values` is bool."""
    if values.dtype != bool:
        raise ValueError(f"{name} must be bool, True = yes; got dtype {values.dtype}")


def check_nodes(
    name: str, values: Any, node_mask: Any, *, mask_name: str = "node_mask"
) -> None:
    """Raises ValueError unless `values` and the bool `node_mask` are both [B, N]."""
    check_bool(mask_name, node_mask)
    if node_mask.ndim != 2:
        raise ValueError(f"{mask_name} must be [B, N]; got shape {node_mask.shape}")
    if values.shape != node_mask.shape:
        raise ValueError(
            f"{name} must have the shape of {mask_name} {node_mask.shape};"
            f" got {values.shape}"
        )


def check_ids(
    name: str, ids: Any, node_mask: Any, *, lowest: int, highest: int
) -> None:
    """Raises ValueError unless `ids` is int [N] or [B, N], in range where present."""
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"{name} must hold integers; got dtype {ids.dtype}")
    if ids.shape not in (node_mask.shape, node_mask.shape[1:]):
        raise ValueError(
            f"{name} must be [N] or [B, N] for node_mask {node_mask.shape};"
            f" got shape {ids.shape}"
        )
    if not is_concrete(ids, node_mask):
        return
    present = np.broadcast_to(np.asarray(ids), node_mask.shape)[np.asarray(node_mask)]
    wrong = present[(present < lowest) | (present > highest)]
    if wrong.size:
        raise ValueError(
            f"{name} must be in [{lowest}, {highest}] where node_mask is True;"
            f" got {wrong[0]}"
        )


def check_parents(parents: Any, node_mask: Any, num_turns: int | None) -> int | None:
    """Raises ValueError unless `parents` is a topologically ordered forest.

    Args:
        parents: a `TreeLayout` or int [N] or [B, N].
        node_mask: bool [B, N].
        num_turns: if given, the depth of the forest may not be above it.

    Returns:
        The depth in turns; None for an array that holds no values yet.
    """
    num_nodes = node_mask.shape[1]
    if num_turns is not None and num_turns < 1:
        raise ValueError(f"num_turns must be >= 1; got {num_turns}")
    if isinstance(parents, TreeLayout):
        if parents.num_nodes != num_nodes:
            raise ValueError(
                f"parents has {parents.num_nodes} slots (branching"
                f" {parents.branching}) but node_mask has {num_nodes}"
            )
        depth = parents.num_turns
    else:
        check_ids(
            "parents", parents, node_mask, lowest=NO_PARENT, highest=num_nodes - 1
        )
        if not is_concrete(parents, node_mask):
            return None
        depth = _checked_depth(np.asarray(parents), np.asarray(node_mask))
    if num_turns is not None and depth > num_turns:
        raise ValueError(
            f"num_turns must be at least the depth of the forest, {depth};"
            f" got {num_turns}"
        )
    return depth


def _checked_depth(parents: np.ndarray, node_mask: np.ndarray) -> int:
    """Depth of the forest of present nodes; raises unless parent < child."""
    parents = np.broadcast_to(parents, node_mask.shape)
    slots = np.arange(node_mask.shape[1])
    late = node_mask & (parents >= slots)
    if late.any():
        row, slot = np.argwhere(late)[0]
        raise ValueError(
            "parents must be topologically ordered, parent < child; got parent"
            f" {parents[row, slot]} of node {slot} in row {row}"
        )
    # One step up the tree per round; a parent in padding ends the walk.
    above = np.where(node_mask, parents, NO_PARENT)
    depth = int(node_mask.any())
    while (above != NO_PARENT).any():
        depth += 1
        upper = np.take_along_axis(
            np.where(node_mask, parents, NO_PARENT), np.maximum(above, 0), axis=1
        )
        above = np.where(above == NO_PARENT, NO_PARENT, upper)
    return depth
