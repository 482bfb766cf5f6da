"""Pruning: which nodes of a finished rollout the update computes gradients for.

Both rules look at the spread of returns, because equal returns give no advantage.
Descendants of a pruned node are pruned too. On a layout this holds across an absent
node; in a parents array an absent node's own parent is not known.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.credit import checks
from rlvr_jax.credit.advantages import is_equal
from rlvr_jax.credit.backups import node_turns
from rlvr_jax.credit.groups import prompt_groups, sibling_groups
from rlvr_jax.credit.recursion import descend, known_slots
from rlvr_jax.credit.reductions import (
    Reduce,
    map_groups,
    rank_in_groups,
    reduce_groups,
)
from rlvr_jax.tree import TreeLayout

# Returns are counted in units of 2^-20 of their group's size. A power of two keeps
# fractions such as 1/8 whole, so that their variances are exact and true ties tie.
RESOLUTION = 2.0**-20
# Other variances carry a few units of rounding, which must not break a tie either.
ROUNDING = 2.0**-18


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
    _check(returns, parents, node_mask, num_turns, budget)
    groups = sibling_groups(parents)
    num_groups = node_mask.shape[1] + 1
    spread = map_groups(_spread, (returns,), groups, node_mask, num_groups=num_groups)
    slots = jax.lax.broadcasted_iota(jnp.float32, node_mask.shape, 1)
    first = reduce_groups(slots, groups, node_mask, num_groups=num_groups, kind="min")
    turns = node_turns(parents, node_mask, num_turns=num_turns)
    keep = jnp.ones_like(node_mask)
    for turn in range(1, num_turns):
        here = node_mask & (turns == turn)
        # One member stands for its group.
        heads = (
            here & (slots == first) & _spread_down(keep, parents, node_mask, turn + 1)
        )
        rank = rank_in_groups(-spread, prompt_groups(parents), heads, num_groups=1)
        chosen = reduce_groups(
            (heads & (rank < budget)).astype(jnp.float32),
            groups,
            node_mask,
            num_groups=num_groups,
            kind="max",
        )
        keep = keep & (~here | (chosen > 0))
    return node_mask & _spread_down(keep, parents, node_mask, num_turns)


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
    _check(returns, parents, node_mask, num_turns, budget)
    keep = _widest_subsets(returns, sibling_groups(parents), node_mask, budget)
    return node_mask & _spread_down(keep | ~node_mask, parents, node_mask, num_turns)


def _check(
    returns: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    num_turns: int,
    budget: int,
) -> None:
    checks.check_nodes("returns", returns, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    checks.check_budget("budget", budget)


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


def _units(
    reduce: Reduce, mask: jax.Array, returns: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(whole units above the lowest return of the group, value of a unit)."""
    returns = jnp.where(mask, returns, 0.0).astype(jnp.float32)
    lowest, highest = reduce(returns, "min"), reduce(returns, "max")
    # A group without members would put infinities into what follows.
    lowest, highest = (
        jnp.where(jnp.isfinite(bound), bound, 0.0) for bound in (lowest, highest)
    )
    size = jnp.maximum(1.0, jnp.maximum(jnp.abs(lowest), jnp.abs(highest)))
    unit = jax.lax.reduce_precision(size, exponent_bits=8, mantissa_bits=0) * RESOLUTION
    units = jnp.round((returns - lowest) / unit)
    return jnp.where(mask & ~is_equal(lowest, highest), units, 0.0), unit


def _spread(reduce: Reduce, mask: jax.Array, returns: jax.Array) -> jax.Array:
    """Variance (ddof 1) of each node's group: it ranks groups as the std does."""
    units, unit = _units(reduce, mask, returns)
    count = reduce(mask.astype(jnp.float32), "sum")
    total, squares = reduce(units, "sum"), reduce(units**2, "sum")
    pairs = jnp.maximum(count * (count - 1.0), 1.0)
    variance = (count * squares - total**2) / pairs * unit**2
    return jax.lax.reduce_precision(variance, exponent_bits=8, mantissa_bits=18)


def _widest_subsets(
    returns: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    budget: int,
) -> jax.Array:
    """Members of the subset of `budget` with the largest variance, bool [B, N]."""
    num_groups = node_mask.shape[1] + 1

    def over_groups(values: jax.Array, kind: str = "sum") -> jax.Array:
        values = values.astype(jnp.float32)
        return reduce_groups(
            values, groups, node_mask, num_groups=num_groups, kind=kind
        )

    units = map_groups(
        lambda reduce, mask, returns: _units(reduce, mask, returns)[0],
        (returns,),
        groups,
        node_mask,
        num_groups=num_groups,
    )
    count = over_groups(node_mask)
    rank = rank_in_groups(units, groups, node_mask, num_groups=num_groups)

    def is_high(num_high: jax.Array) -> jax.Array:
        return rank >= count - num_high

    def is_chosen(num_high: jax.Array) -> jax.Array:
        return is_high(num_high) | (rank < budget - num_high)

    def consider(num_high: jax.Array, best: tuple) -> tuple:
        chosen = jnp.where(is_chosen(num_high), units, 0.0)
        squares = budget * over_groups(chosen**2)
        variance = squares - over_groups(chosen) ** 2
        # A gain within the rounding of its terms is none.
        better = variance > best[0] + ROUNDING * squares
        number = jnp.asarray(num_high, jnp.float32)
        return jnp.where(better, variance, best[0]), jnp.where(better, number, best[1])

    worst = jnp.full(node_mask.shape, -jnp.inf), jnp.zeros(node_mask.shape)
    # More than N members exist in no group.
    last = min(budget, node_mask.shape[1])
    _, num_high = jax.lax.fori_loop(0, last + 1, consider, worst)
    chosen = is_chosen(num_high)
    # The lowest of the high ones may share their return with members left out.
    edge = over_groups(jnp.where(is_high(num_high), units, jnp.inf), "min")
    places = over_groups(chosen & (units == edge))
    chosen = jnp.where(units == edge, rank - over_groups(units < edge) < places, chosen)
    return node_mask & (chosen | (count <= budget))
