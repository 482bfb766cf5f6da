"""Spread of the returns of a group, exact where the returns are.

Binary and fractional rewards tie often: one of three solved spreads as two of three.
Rounding must not decide such ties, so variances are built from whole numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.credit.advantages import is_equal
from rlvr_jax.credit.reductions import (
    Reduce,
    map_groups,
    rank_in_groups,
    reduce_groups,
)

# Returns are counted in units of 2^-20 of their group's size. A power of two keeps
# fractions such as 1/8 whole, so that their variances are exact and true ties tie.
RESOLUTION = 2.0**-20
# Other variances carry a few units of rounding, which must not break a tie either.
ROUNDING = 2.0**-18


def _units(
    reduce: Reduce, mask: jax.Array, returns: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(whole units above the lowest return of the group, value of a unit)."""
    returns = jnp.where(mask, returns, 0.0).astype(jnp.float32)
    lowest, highest = reduce((returns, returns), ("min", "max"))
    # A group without members would put infinities into what follows.
    lowest, highest = (
        jnp.where(jnp.isfinite(bound), bound, 0.0) for bound in (lowest, highest)
    )
    size = jnp.maximum(1.0, jnp.maximum(jnp.abs(lowest), jnp.abs(highest)))
    unit = jax.lax.reduce_precision(size, exponent_bits=8, mantissa_bits=0) * RESOLUTION
    units = jnp.round((returns - lowest) / unit)
    return jnp.where(mask & ~is_equal(lowest, highest), units, 0.0), unit


def spread_of_groups(reduce: Reduce, mask: jax.Array, returns: jax.Array) -> jax.Array:
    """Variance (ddof 1) of each node's group: it ranks groups as the std does."""
    units, unit = _units(reduce, mask, returns)
    count, total, squares = reduce(
        (mask.astype(jnp.float32), units, units**2), ("sum", "sum", "sum")
    )
    pairs = jnp.maximum(count * (count - 1.0), 1.0)
    variance = (count * squares - total**2) / pairs * unit**2
    return jax.lax.reduce_precision(variance, exponent_bits=8, mantissa_bits=18)


def widest_subsets(
    returns: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    budget: jax.Array,
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
    _, num_high = jax.lax.fori_loop(0, budget + 1, consider, worst)
    chosen = is_chosen(num_high)
    # The lowest of the high ones may share their return with members left out.
    edge = over_groups(jnp.where(is_high(num_high), units, jnp.inf), "min")
    places = over_groups(chosen & (units == edge))
    chosen = jnp.where(units == edge, rank - over_groups(units < edge) < places, chosen)
    return node_mask & (chosen | (count <= budget))
