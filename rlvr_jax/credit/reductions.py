"""Reductions over children and over groups: reshapes where the structure is static.

Both live inside one row b. A structure known when tracing (a `TreeLayout`, or group
ids in a NumPy array [N] whose groups are runs of neighbours) becomes reshapes; any
other one becomes segment operations over row-local ids.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.tree import TreeLayout

_IDENTITY = {"sum": 0.0, "max": -jnp.inf, "min": jnp.inf}
_ALONG_AXIS = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}
_SEGMENT = {
    "sum": jax.ops.segment_sum,
    "max": jax.ops.segment_max,
    "min": jax.ops.segment_min,
}

Combine = Callable[..., jax.Array]


def reduce_segments(
    values: jax.Array, ids: jax.Array, num_segments: int, kind: str
) -> jax.Array:
    """Reduces [B, N] values per row-local id into [B, num_segments]."""
    num_rows = values.shape[0]
    rows = jnp.arange(num_rows)[:, None] * num_segments
    flat_ids = (rows + jnp.broadcast_to(ids, values.shape)).reshape(-1)
    reduced = _SEGMENT[kind](
        values.reshape(-1), flat_ids, num_segments=num_rows * num_segments
    )
    return reduced.reshape(num_rows, num_segments)


def fold_children(
    own: tuple[jax.Array, ...],
    node_mask: jax.Array,
    parents: TreeLayout | jax.Array,
    *,
    num_turns: int,
    kinds: tuple[str, ...],
    combine: Combine,
) -> jax.Array:
    """Bottom-up recursion R(o) = combine(own(o), reductions over the children of R).

    Args:
        own: arrays [B, N], read at the node itself; finite in padding.
        node_mask: bool [B, N]; absent nodes are nobody's children.
        parents: `TreeLayout`, or int [N] or [B, N].
        num_turns: at least the depth of the forest.
        kinds: reductions over the present children of R: sum, max, min, or `count`
            (how many there are).
        combine: called as combine(own, reduced), arrays of the same shape; without
            children a reduction is its identity (0, -inf, inf).

    Returns:
        R, float32 [B, N].
    """
    if isinstance(parents, TreeLayout):
        return _fold_layout(own, node_mask, parents, kinds, combine)
    parents = jnp.broadcast_to(parents, node_mask.shape)
    num_segments = node_mask.shape[1] + 1
    # Segment 0 takes the roots and everything absent; segment k + 1 is node k's.
    ids = jnp.where(node_mask, parents + 1, 0)

    def reduce(returns: jax.Array, kind: str) -> jax.Array:
        values, kind = _masked(returns, node_mask, kind)
        return reduce_segments(values, ids, num_segments, kind)[:, 1:]

    identities = tuple(jnp.full_like(own[0], _identity(kind)) for kind in kinds)
    returns = combine(own, identities)
    # After k rounds every node of height <= k is final: children before parents.
    for _ in range(num_turns - 1):
        returns = combine(own, tuple(reduce(returns, kind) for kind in kinds))
    return returns


def _fold_layout(
    own: tuple[jax.Array, ...],
    node_mask: jax.Array,
    layout: TreeLayout,
    kinds: tuple[str, ...],
    combine: Combine,
) -> jax.Array:
    """`fold_children` on level-order slots: one reshape per turn."""
    levels: list[jax.Array] = []
    below_mask = None
    for turn in reversed(range(layout.num_turns)):
        here = layout.turn_slice(turn)
        own_here = tuple(values[:, here] for values in own)
        if below_mask is None:
            reduced = tuple(jnp.full_like(own_here[0], _identity(k)) for k in kinds)
        else:
            shape = (*own_here[0].shape, layout.branching[turn + 1])
            below = levels[-1].reshape(shape)
            below_mask = below_mask.reshape(shape)
            reduced = ()
            for kind in kinds:
                values, operation = _masked(below, below_mask, kind)
                reduced += (_ALONG_AXIS[operation](values, axis=-1),)
        levels.append(combine(own_here, reduced))
        below_mask = node_mask[:, here]
    return jnp.concatenate(levels[::-1], axis=1)


def _identity(kind: str) -> float:
    return 0.0 if kind == "count" else _IDENTITY[kind]


def _masked(values: jax.Array, mask: jax.Array, kind: str) -> tuple[jax.Array, str]:
    """Values with the identity where `mask` is False, and the operation to apply."""
    if kind == "count":
        return mask.astype(values.dtype), "sum"
    return jnp.where(mask, values, _IDENTITY[kind]), kind


def reduce_groups(
    values: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    *,
    num_groups: int,
    kind: str,
) -> jax.Array:
    """The reduction over the present members of each node's group, at that node.

    Args:
        values: [B, N].
        groups: int [N] or [B, N], ids in [0, num_groups); anything where absent.
        node_mask: bool [B, N].
        num_groups: bound of the ids.
        kind: sum, max or min.

    Returns:
        [B, N]; the value at an absent node has no meaning.
    """
    values = jnp.where(node_mask, values, _IDENTITY[kind])
    runs = _static_runs(groups)
    if runs is None:
        ids = jnp.where(node_mask, jnp.broadcast_to(groups, node_mask.shape), 0)
        # Absent nodes hold the identity, so that group 0 does not notice them.
        reduced = reduce_segments(values, ids, num_groups, kind)
        return jnp.take_along_axis(reduced, ids, axis=1)
    parts = []
    for start, count, size in runs:
        block = values[:, start : start + count * size].reshape(-1, count, size)
        reduced = _ALONG_AXIS[kind](block, axis=-1, keepdims=True)
        parts.append(jnp.broadcast_to(reduced, block.shape).reshape(-1, count * size))
    return jnp.concatenate(parts, axis=1)


def _static_runs(groups: Any) -> list[tuple[int, int, int]] | None:
    """Static groups as stretches (start, number of groups, size of each), or None.

    None: the ids are not a NumPy array [N], or some group is not one run of neighbours.
    """
    if not isinstance(groups, np.ndarray) or groups.ndim != 1 or groups.size == 0:
        return None
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    if len(np.unique(groups)) != len(starts):
        return None
    sizes = np.diff(starts, append=len(groups))
    runs, start = [], 0
    for size, stretch in itertools.groupby(sizes.tolist()):
        count = len(list(stretch))
        runs.append((start, count, size))
        start += count * size
    return runs
