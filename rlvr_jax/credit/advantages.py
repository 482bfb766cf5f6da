"""Advantages: returns compared inside groups, A = (R - baseline) / scale."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.credit import checks
from rlvr_jax.credit.reductions import Reduce, map_groups

BASELINES = ("mean", "leave_one_out", "none")
SCALES = ("std", "mean", "none")
EQUAL_TOLERANCE = 1e-6  # relative spread below which a group carries no signal


def group_advantages(
    returns: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    *,
    num_groups: int | None = None,
    baseline: str = "mean",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 1e-6,
) -> jax.Array:
    """A = (R - baseline) / scale over the present members of each node's group.

    A group whose members are equal (max - min <= 1e-6 max(1, max |R|)), and so every
    group of one, gets exactly 0: in float32 the moments of equal values differ in the
    last bit, and dividing that by a standard deviation of the same size would make an
    advantage out of rounding. `baseline="none"` without a std compares nothing and is
    exempt: it returns R, or R over the group's mean.

    Args:
        returns: float [B, N]; anything where absent.
        groups: int [N] or [B, N], ids in [0, num_groups) where present.
        node_mask: bool [B, N], True where a graded response is.
        num_groups: bound of the ids; default N + 1, enough for `sibling_groups`.
        baseline: `mean`; `leave_one_out`, the mean of the others; `none`, 0.
        scale: `std`, the standard deviation + epsilon; `mean`, the mean + epsilon
            (rewards >= 0); `none`, 1.
        ddof: 1 divides the variance by n - 1, 0 by n.
        epsilon: added to the scale.

    Returns:
        Advantages, float32 [B, N]; 0 where absent.

    Raises:
        ValueError: an unknown name, wrong shapes or dtypes, or an id out of range
            (eager only).

    Source: GRPO (2402.03300), Dr.GRPO (2503.20783), RLOO, MaxRL (2602.02710). ddof 1
    and epsilon 1e-6 are what TRL, verl and Tunix use.

    Example:
        >>> import jax.numpy as jnp
        >>> rewards = jnp.array([[1.0, 0.0, 0.0, 0.0]])
        >>> advantages = group_advantages(rewards, jnp.zeros(4, int), rewards >= 0)
        >>> [round(value, 4) for value in advantages[0].tolist()]
        [1.5, -0.5, -0.5, -0.5]
    """
    _check(returns, groups, node_mask, num_groups, baseline, scale, ddof)
    normalise = functools.partial(
        _normalise, baseline=baseline, scale=scale, ddof=ddof, epsilon=epsilon
    )
    if num_groups is None:
        num_groups = node_mask.shape[1] + 1
    return map_groups(normalise, (returns,), groups, node_mask, num_groups=num_groups)


def _check(
    returns: jax.Array,
    groups: np.ndarray | jax.Array,
    node_mask: jax.Array,
    num_groups: int | None,
    baseline: str,
    scale: str,
    ddof: int,
) -> None:
    """Raises ValueError for arguments that `group_advantages` cannot take."""
    checks.check_choice("baseline", baseline, BASELINES)
    checks.check_choice("scale", scale, SCALES)
    checks.check_ddof(ddof)
    checks.check_nodes("returns", returns, node_mask)
    bound = node_mask.shape[1] + 1 if num_groups is None else num_groups
    if bound < 1:
        raise ValueError(f"num_groups must be >= 1; got {num_groups}")
    checks.check_ids("groups", groups, node_mask, lowest=0, highest=bound - 1)


def _normalise(
    reduce: Reduce,
    mask: jax.Array,
    returns: jax.Array,
    *,
    baseline: str,
    scale: str,
    ddof: int,
    epsilon: float,
) -> jax.Array:
    """(R - baseline) / scale of present members, 0 elsewhere and in equal groups."""
    returns = jnp.where(mask, returns, 0.0).astype(jnp.float32)
    count, total, lowest, highest = reduce(
        (mask.astype(jnp.float32), returns, returns, returns),
        ("sum", "sum", "min", "max"),
    )
    mean = total / jnp.maximum(count, 1.0)
    centered = jnp.where(mask, returns - mean, 0.0)
    advantages = {
        "mean": centered,
        "leave_one_out": centered * (count / jnp.maximum(count - 1.0, 1.0)),
        "none": returns,
    }[baseline]
    if scale == "std":
        # Two passes: the squares of centred values do not cancel.
        (squares,) = reduce((centered**2,), ("sum",))
        variance = squares / jnp.maximum(count - ddof, 1.0)
        # The root of 0 has no gradient; those groups are equal and get 0 below.
        deviation = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
        advantages = advantages / (deviation + epsilon)
    elif scale == "mean":
        advantages = advantages / (mean + epsilon)
    if baseline != "none" or scale == "std":
        mask = mask & ~is_equal(lowest, highest)
    return jnp.where(mask, advantages, 0.0)


def is_equal(lowest: jax.Array, highest: jax.Array) -> jax.Array:
    """True for groups of this range that carry no signal.

    max - min <= 1e-6 max(1, max |R|): rounding alone can make such a spread.
    """
    size = jnp.maximum(1.0, jnp.maximum(jnp.abs(lowest), jnp.abs(highest)))
    return highest - lowest <= EQUAL_TOLERANCE * size
