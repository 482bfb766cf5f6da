"""Weights of advantages: per attempt (calibration) and over the batch (whitening)."""

import jax
import jax.numpy as jnp

from rlvr_jax.credit import checks
from rlvr_jax.credit.advantages import is_equal
from rlvr_jax.credit.backups import is_solved, node_turns
from rlvr_jax.tree import TreeLayout


def calibrated_weights(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    num_turns: int,
    solved: jax.Array | None = None,
    max_reward: float = 1.0,
) -> jax.Array:
    """Weight of attempt k: w_k = product over later attempts j > k of (1 - p_j).

    p_j is the share of solved nodes among the present nodes of turn j of the row; a
    turn that nobody reached contributes the factor 1. So the last attempt weighs 1, and
    an early one little where later attempts would repair it anyway.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots.
        node_mask: bool [B, N], True where a graded response is.
        num_turns: S, at least the depth of the forest.
        solved: bool [B, N]; default `rewards >= max_reward - 1e-6`.
        max_reward: reward of a solved node.

    Returns:
        Weights in [0, 1], float32 [B, N]; 0 where absent.

    Raises:
        ValueError: wrong shapes or dtypes, or a forest that is not ordered (eager).

    Source: CAL-GRPO (arXiv 2604.17912), derived from the gradient of
    Ver@K = 1 - product of (1 - p_k). With the true p it is exact; the estimate of the
    same sample makes it a plug-in.

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[0.0, 0.0, 1.0, 0.0, 1.0, 0.0]])
        >>> mask = jnp.array([[True, True, True, True, True, False]])
        >>> calibrated_weights(rewards, TreeLayout((3, 1)), mask, num_turns=2).tolist()
        [[0.5, 0.5, 0.5, 1.0, 1.0, 0.0]]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_parents(parents, node_mask, num_turns)
    if solved is None:
        solved = is_solved(rewards, max_reward=max_reward)
    checks.check_bool("solved", solved)
    checks.check_nodes("solved", solved, node_mask)
    turns = node_turns(parents, node_mask, num_turns=num_turns)
    weights = jnp.zeros(node_mask.shape, jnp.float32)
    later_failures = jnp.ones((node_mask.shape[0], 1), jnp.float32)
    for turn in reversed(range(num_turns)):
        here = node_mask & (turns == turn)
        weights = jnp.where(here, later_failures, weights)
        reached = here.sum(axis=1, keepdims=True)
        failed = (here & ~solved).sum(axis=1, keepdims=True)
        share = failed / jnp.maximum(reached, 1)
        later_failures *= jnp.where(reached > 0, share, 1.0)
    return weights


def whiten(
    advantages: jax.Array,
    weights: jax.Array,
    mask: jax.Array,
    *,
    epsilon: float = 1e-8,
) -> jax.Array:
    """(A - mean) / sqrt(var + ε), moments over the whole batch, weighted.

    With `weights` = trained tokens of each node, these are the moments over all trained
    tokens of the batch. Advantages that are all equal become exactly 0.

    Args:
        advantages: float [B, N]; anything where `mask` is False.
        weights: int or float [B, N], >= 0; anything where `mask` is False.
        mask: bool [B, N], nodes that are trained.
        epsilon: added to the variance.

    Returns:
        Advantages, float32 [B, N]; 0 where `mask` is False.

    Raises:
        ValueError: wrong shapes or dtypes, or a weight below 0 (eager).

    Source: REINFORCE++ (arXiv 2501.03262). The variance divides by the sum of the
    weights; verl's divides by one less, which is n / (n - 1) for n tokens. The batch is
    what this process holds.

    Example:
        >>> import jax.numpy as jnp
        >>> tokens = jnp.array([[1, 3]])
        >>> whitened = whiten(jnp.array([[1.0, 0.0]]), tokens, tokens > 0)
        >>> [round(value, 3) for value in whitened[0].tolist()]
        [1.732, -0.577]
    """
    checks.check_nodes("advantages", advantages, mask, mask_name="mask")
    checks.check_nodes("weights", weights, mask, mask_name="mask")
    checks.check_not_negative("weights", weights, mask)
    advantages = jnp.where(mask, advantages, 0.0).astype(jnp.float32)
    weights = jnp.where(mask, weights, 0).astype(jnp.float32)
    total = weights.sum()
    total = jnp.where(total > 0, total, 1.0)
    centered = advantages - (weights * advantages).sum() / total
    variance = (weights * centered**2).sum() / total
    lowest = jnp.where(mask, advantages, jnp.inf).min(initial=jnp.inf)
    highest = jnp.where(mask, advantages, -jnp.inf).max(initial=-jnp.inf)
    signal = mask & ~is_equal(lowest, highest)
    return jnp.where(signal, centered * jax.lax.rsqrt(variance + epsilon), 0.0)
