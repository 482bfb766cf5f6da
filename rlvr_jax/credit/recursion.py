"""Recursions up and down a forest: reshapes on a `TreeLayout`, else segment operations.

A parents array says nothing reliable about an absent node, whose slot may hold
anything: there an absent node cuts the tree. A layout knows every slot.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlvr_jax.credit.reductions import IDENTITY, reduce_last_axis, reduce_segments
from rlvr_jax.tree import TreeLayout

Combine = Callable[..., jax.Array]


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
            masked = [_masked(below, below_mask, kind) for kind in kinds]
            reduced = reduce_last_axis(*map(tuple, zip(*masked, strict=True)))
        levels.append(combine(own_here, reduced))
        below_mask = node_mask[:, here]
    return jnp.concatenate(levels[::-1], axis=1)


def _identity(kind: str) -> float:
    return 0.0 if kind == "count" else IDENTITY[kind]


def _masked(values: jax.Array, mask: jax.Array, kind: str) -> tuple[jax.Array, str]:
    """Values with the identity where `mask` is False, and the operation to apply."""
    if kind == "count":
        return mask.astype(values.dtype), "sum"
    return jnp.where(mask, values, IDENTITY[kind]), kind


def descend(
    own: jax.Array,
    parents: TreeLayout | jax.Array,
    linked: jax.Array,
    *,
    num_turns: int,
    combine: Combine,
) -> jax.Array:
    """Top-down recursion V(o) = combine(own(o), V(parent)); V = own without a parent.

    Args:
        own: [B, N].
        parents: `TreeLayout`, or int [N] or [B, N].
        linked: bool [B, N], nodes that pass their value on: `node_mask`, or more of
            them on a layout (`known_slots`). Elsewhere parents may hold anything.
        num_turns: at least the depth of the forest.
        combine: called as combine(own, above), arrays of the same shape.

    Returns:
        V, [B, N] of the dtype of `own`.
    """
    if isinstance(parents, TreeLayout):
        levels = [own[:, parents.turn_slice(0)]]
        for turn in range(1, parents.num_turns):
            here = own[:, parents.turn_slice(turn)]
            above, link = (
                jnp.repeat(values, parents.branching[turn], axis=1)
                for values in (levels[-1], linked[:, parents.turn_slice(turn - 1)])
            )
            levels.append(jnp.where(link, combine(here, above), here))
        return jnp.concatenate(levels, axis=1)
    parents = jnp.where(linked, jnp.broadcast_to(parents, linked.shape), -1)
    above = jnp.maximum(parents, 0)
    below_link = (parents >= 0) & jnp.take_along_axis(linked, above, axis=1)
    values = own
    for _ in range(num_turns - 1):
        passed = jnp.take_along_axis(values, above, axis=1)
        values = jnp.where(below_link, combine(own, passed), own)
    return values


def known_slots(parents: TreeLayout | jax.Array, node_mask: jax.Array) -> jax.Array:
    """Slots whose parent is known, bool [B, N]: all of a layout, else present ones."""
    if isinstance(parents, TreeLayout):
        return jnp.ones_like(node_mask)
    return node_mask


def first_turn(parents: TreeLayout | jax.Array, node_mask: jax.Array) -> jax.Array:
    """Present nodes of turn 0, bool [B, N]."""
    if isinstance(parents, TreeLayout):
        return node_mask & jnp.asarray(parents.turns == 0)[None, :]
    return node_mask & jnp.broadcast_to(parents < 0, node_mask.shape)


def inherit(
    values: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
) -> jax.Array:
    """The value of each node's turn-0 ancestor, [B, N].

    0 where absent, and where that ancestor is absent or not known.
    """
    own = jnp.where(first_turn(parents, node_mask), values, 0.0)
    passed = descend(
        own,
        parents,
        known_slots(parents, node_mask),
        num_turns=num_turns,
        combine=lambda own, above: above,
    )
    return jnp.where(node_mask, passed, 0.0)
