"""Pruning: which nodes of a finished rollout the update computes gradients for.

Both rules look at the spread of returns, because equal returns give no advantage.
Descendants of a pruned node are pruned too. On a layout this holds across an absent
node; in a parents array an absent node's own parent is not known.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlvr_jax.credit import checks
from rlvr_jax.credit.backups import node_turns
from rlvr_jax.credit.groups import prompt_groups, sibling_groups
from rlvr_jax.credit.recursion import descend, known_slots
from rlvr_jax.credit.reductions import (
    map_groups,
    rank_in_groups,
    reduce_groups,
)
from rlvr_jax.credit.spreads import spread_of_groups, widest_subsets
from rlvr_jax.tree import TreeLayout


def prune_inter(
    returns: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    budget: int,
) -> jax.Array:
    """Keeps the `budget` sibling groups of each turn whose returns spread most.

    Turn after turn: groups below a pruned node do not compete for the places of their
    own turn. The spread is the standard deviation (ddof 1), 0 for groups of one and for
    equal groups; ties go to the group with the lower slots. The root group stays.

    Args:
        returns: float [B, N], backed-up or raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        budget: groups kept per prompt and turn, >= 1.

    Returns:
        bool [B, N], True where kept; False where absent.

    Raises:
        ValueError: a budget below 1, wrong shapes or dtypes, or a forest that is not
            ordered (eager).

    Source: Murphy (arXiv 2511.07833), InterP; the paper gives the idea, the ranking by
    turn and the ties are ours.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> returns = jnp.array([[0.0, 0.0, 0.5, 0.5, 1.0, 0.0]])
        >>> mask = jnp.ones((1, 6), bool)
        >>> kept = prune_inter(returns, TreeLayout((2, 2)), mask, num_turns=2, budget=1)
        >>> kept.astype(int).tolist()
        [[1, 1, 0, 0, 1, 1]]
    """
    return _checked(
        _keep_groups, returns, parents, node_mask, num_turns=num_turns, budget=budget
    )


def prune_intra(
    returns: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    budget: int,
) -> jax.Array:
    """Keeps, in each sibling group, the `budget` members whose returns vary most.

    The best subset holds the i highest and the budget - i lowest returns for some i;
    all i are tried, and a later one wins only if its variance is larger. Of members
    with the same return those in lower slots stay. A group that is not larger than the
    budget is kept whole.

    Args:
        returns: float [B, N], backed-up or raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        budget: members kept per group, >= 1.

    Returns:
        bool [B, N], True where kept; False where absent.

    Raises:
        ValueError: a budget below 1, wrong shapes or dtypes, or a forest that is not
            ordered (eager).

    Source: PODS (arXiv 2504.13818), max-variance down-sampling; Murphy (arXiv
    2511.07833) applies it inside each sibling group as IntraP.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> returns = jnp.array([[1.0, 1.0, 0.75, 0.5, 0.5, 0.25, 0.0, 0.0]])
        >>> mask = jnp.ones((1, 8), bool)
        >>> kept = prune_intra(returns, TreeLayout((8,)), mask, num_turns=1, budget=4)
        >>> kept.astype(int).tolist()
        [[1, 1, 0, 0, 0, 0, 1, 1]]
    """
    return _checked(
        _keep_members, returns, parents, node_mask, num_turns=num_turns, budget=budget
    )


def _checked(
    rule: Callable[..., jax.Array],
    returns: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    budget: int,
) -> jax.Array:
    """Calls a compiled rule, for which a layout is static and an array is not."""
    checks.check_nodes("returns", returns, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    checks.check_budget("budget", budget)
    layout = parents if isinstance(parents, TreeLayout) else None
    return rule(
        returns,
        parents if layout is None else None,
        node_mask,
        layout=layout,
        num_turns=num_turns,
        # Larger ones keep everything too.
        budget=min(int(budget), node_mask.shape[1]),
    )


_compiled = functools.partial(jax.jit, static_argnames=("layout", "num_turns"))


@_compiled
def _keep_groups(
    returns: jax.Array,
    parents: jax.Array | None,
    node_mask: jax.Array,
    *,
    layout: TreeLayout | None,
    num_turns: int,
    budget: jax.Array,
) -> jax.Array:
    """`prune_inter`."""
    parents = parents if layout is None else layout
    groups = sibling_groups(parents)
    num_groups = node_mask.shape[1] + 1
    spread = map_groups(
        spread_of_groups, (returns,), groups, node_mask, num_groups=num_groups
    )
    slots = jax.lax.broadcasted_iota(jnp.float32, node_mask.shape, 1)
    first = reduce_groups(slots, groups, node_mask, num_groups=num_groups, kind="min")
    turns = node_turns(parents, node_mask, num_turns=num_turns)

    def prune_turn(turn: jax.Array, keep: jax.Array) -> jax.Array:
        here = node_mask & (turns == turn)
        alive = _spread_down(keep, parents, node_mask, num_turns)
        # One member stands for its group.
        heads = here & alive & (slots == first)
        rank = rank_in_groups(-spread, prompt_groups(parents), heads, num_groups=1)
        chosen = reduce_groups(
            (heads & (rank < budget)).astype(jnp.float32),
            groups,
            node_mask,
            num_groups=num_groups,
            kind="max",
        )
        return keep & (~here | (chosen > 0))

    keep = jax.lax.fori_loop(1, num_turns, prune_turn, jnp.ones_like(node_mask))
    return node_mask & _spread_down(keep, parents, node_mask, num_turns)


@_compiled
def _keep_members(
    returns: jax.Array,
    parents: jax.Array | None,
    node_mask: jax.Array,
    *,
    layout: TreeLayout | None,
    num_turns: int,
    budget: jax.Array,
) -> jax.Array:
    """`prune_intra`."""
    parents = parents if layout is None else layout
    keep = widest_subsets(returns, sibling_groups(parents), node_mask, budget)
    return node_mask & _spread_down(keep | ~node_mask, parents, node_mask, num_turns)


def _spread_down(
    keep: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    num_turns: int,
) -> jax.Array:
    """Kept nodes whose ancestors are all kept, bool [B, N]."""
    return descend(
        keep,
        parents,
        known_slots(parents, node_mask),
        num_turns=num_turns,
        combine=jnp.logical_and,
    )
