"""Reductions and ranks inside groups: reshapes where the structure is static.

Groups live inside one row b. Ids known when tracing (a NumPy array whose groups are
runs of neighbours, as a `TreeLayout` gives) become reshapes; any others become segment
operations over row-local ids.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

IDENTITY = {"sum": 0.0, "max": -jnp.inf, "min": jnp.inf}
_ALONG_AXIS = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}
_OF_TWO = {"sum": jnp.add, "max": jnp.maximum, "min": jnp.minimum}
_SEGMENT = {
    "sum": jax.ops.segment_sum,
    "max": jax.ops.segment_max,
    "min": jax.ops.segment_min,
}

Arrays = tuple[jax.Array, ...]
# reduce(arrays, kinds): over the present members of each element's group, in shapes
# that broadcast against the arrays.
Reduce = Callable[[Arrays, tuple[str, ...]], Arrays]


# Compiled once per shape even when called eagerly: `lax.reduce` with a fresh `combine`
# would compile at each call.
@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
@functools.partial(jax.jit, static_argnums=(1,), inline=True)
def reduce_last_axis(values: Arrays, kinds: tuple[str, ...]) -> Arrays:
    """Reduces the last axis of arrays of one shape, each by its own kind.

    One loop over the members serves them all. `jnp.sum` and its like would each write
    their masked input to memory and read it again: on a CPU, two to three times the
    time.
    """
    identities = tuple(jnp.asarray(IDENTITY[kind], values[0].dtype) for kind in kinds)

    def combine(left: Arrays, right: Arrays) -> Arrays:
        pairs = zip(kinds, left, right, strict=True)
        return tuple(_OF_TWO[kind](a, b) for kind, a, b in pairs)

    return tuple(jax.lax.reduce(values, identities, combine, (values[0].ndim - 1,)))


@reduce_last_axis.defjvp
def _reduce_last_axis_jvp(
    kinds: tuple[str, ...], primals: tuple[Arrays], tangents: tuple[Arrays]
) -> tuple[Arrays, Arrays]:
    # JAX has no derivative of several reductions at once, but of each alone.
    def one_by_one(values: Arrays) -> Arrays:
        pairs = zip(kinds, values, strict=True)
        return tuple(_ALONG_AXIS[kind](array, axis=-1) for kind, array in pairs)

    _, slopes = jax.jvp(one_by_one, primals, tangents)
    return reduce_last_axis(*primals, kinds), slopes


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


def map_groups(
    function: Callable[..., jax.Array],
    arrays: tuple[jax.Array, ...],
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    *,
    num_groups: int,
) -> jax.Array:
    """Applies `function(reduce, mask, *arrays)`, which sees groups through `reduce`.

    Static groups are handed over as blocks [B, groups, members], one call per group
    size, so that all of the function's arithmetic fuses around its reductions.

    Args:
        function: elementwise apart from `reduce(arrays, kinds)`, which gives the sums,
            maxima or minima over the present members of each element's group.
        arrays: [B, N] each; anything where absent.
        groups: int [N] or [B, N], ids in [0, num_groups); anything where absent.
        node_mask: bool [B, N].
        num_groups: bound of the ids.

    Returns:
        [B, N], what `function` returned.
    """
    runs = _static_runs(groups)
    if runs is None:
        ids = jnp.where(node_mask, jnp.broadcast_to(groups, node_mask.shape), 0)

        def reduce_one(values: jax.Array, kind: str) -> jax.Array:
            # Absent nodes hold the identity, so that group 0 does not notice them.
            values = jnp.where(node_mask, values, IDENTITY[kind])
            reduced = reduce_segments(values, ids, num_groups, kind)
            return jnp.take_along_axis(reduced, ids, axis=1)

        def reduce(values: Arrays, kinds: tuple[str, ...]) -> Arrays:
            return tuple(map(reduce_one, values, kinds))

        return function(reduce, node_mask, *arrays)
    parts = []
    for start, count, size in runs:
        stop = start + count * size
        mask, *blocks = (
            values[:, start:stop].reshape(-1, count, size)
            for values in (node_mask, *arrays)
        )

        reduce = functools.partial(_reduce_blocks, mask)
        part = jnp.broadcast_to(function(reduce, mask, *blocks), mask.shape)
        parts.append(part.reshape(-1, count * size))
    return jnp.concatenate(parts, axis=1)


def _reduce_blocks(mask: jax.Array, values: Arrays, kinds: tuple[str, ...]) -> Arrays:
    present = tuple(
        jnp.where(mask, array, IDENTITY[kind])
        for array, kind in zip(values, kinds, strict=True)
    )
    return tuple(array[..., None] for array in reduce_last_axis(present, kinds))


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
        groups, node_mask, num_groups: as in `map_groups`.
        kind: sum, max or min.

    Returns:
        [B, N]; the value at an absent node has no meaning.
    """
    return map_groups(
        lambda reduce, mask, values: reduce((values,), (kind,))[0],
        (values,),
        groups,
        node_mask,
        num_groups=num_groups,
    )


def rank_in_groups(
    values: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    *,
    num_groups: int,
) -> jax.Array:
    """How many present members of the group stand before a node: by value, then slot.

    Args:
        values: [B, N].
        groups, node_mask, num_groups: as in `map_groups`.

    Returns:
        float32 [B, N], 0-based, exact up to 2^24 slots; no meaning where absent.
    """
    if _static_runs(groups) is not None:
        return map_groups(
            lambda reduce, mask, values: _positions(
                (jnp.where(mask, values, jnp.inf),)
            ),
            (values,),
            groups,
            node_mask,
            num_groups=num_groups,
        )
    ids = jnp.where(node_mask, jnp.broadcast_to(groups, node_mask.shape), num_groups)
    position = _positions((ids, jnp.where(node_mask, values, 0.0)))
    first = reduce_groups(
        position, groups, node_mask, num_groups=num_groups, kind="min"
    )
    return position - first


def _positions(keys: Arrays) -> jax.Array:
    """Place of each element in the last axis sorted by `keys`, ties as they stand."""
    axis = keys[0].ndim - 1
    slots = jax.lax.broadcasted_iota(jnp.int32, keys[0].shape, axis)
    *_, order = jax.lax.sort((*keys, slots), dimension=axis, num_keys=len(keys))
    _, position = jax.lax.sort((order, slots), dimension=axis, num_keys=1)
    return position.astype(jnp.float32)


def _static_runs(groups: Any) -> list[tuple[int, int, int]] | None:
    """Static groups as stretches (start, number of groups, size of each), or None.

    None: the ids are not a NumPy array, differ between rows, or some group is not one
    run of neighbours.
    """
    if not isinstance(groups, np.ndarray) or groups.size == 0:
        return None
    if groups.ndim == 2 and (groups == groups[:1]).all():
        groups = groups[0]
    if groups.ndim != 1:
        return None
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    if len(np.unique(groups)) != len(starts):
        return None
    sizes = np.diff(starts, append=len(groups))
    runs, start = [], 0
    for size, stretch in itertools.groupby(sizes.tolist()):
        count = len(list(stretch))
        runs.append((start, count, size))
        start += count * size
    return runs
