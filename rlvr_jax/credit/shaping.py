"""Reward shaping inside a rollout tree."""

import jax
import jax.numpy as jnp

from rlvr_jax.credit import checks
from rlvr_jax.credit.recursion import descend
from rlvr_jax.tree import TreeLayout

MAX_TURNS = 2


def progress_bonus(
    rewards: jax.Array,
    parents: TreeLayout | jax.Array,
    node_mask: jax.Array,
    *,
    alpha: float,
) -> jax.Array:
    """Rewards with a bonus for progress: r2' = r2 + α (r2 - r1), r1' = r1.

    Args:
        rewards: float [B, N], raw rewards; anything where absent.
        parents: `TreeLayout`, or int [N] or [B, N] with parent < child, -1 for roots;
            two turns at most.
        node_mask: bool [B, N], True where a graded response is.
        alpha: α >= 0; the paper uses 10 on MATH.

    Returns:
        Shaped rewards, float32 [B, N]; 0 where absent. A retry whose first attempt is
        absent keeps its own reward.

    Raises:
        ValueError: a deeper forest, an alpha below 0, wrong shapes or dtypes.

    Source: SCoRe (arXiv 2409.12917), stage II. There every first attempt is retried;
    each attempt is then trained on its own shaped reward, the first one on r1 (our
    reading: the paper does not say).

    Example:
        >>> import jax.numpy as jnp
        >>> from rlvr_jax.tree import TreeLayout
        >>> rewards = jnp.array([[0.0, 1.0, 1.0, 0.0]])
        >>> mask = jnp.ones((1, 4), bool)
        >>> progress_bonus(rewards, TreeLayout((2, 1)), mask, alpha=10.0).tolist()
        [[0.0, 1.0, 11.0, -10.0]]
    """
    checks.check_nodes("rewards", rewards, node_mask)
    checks.check_alpha("alpha", alpha)
    depth = checks.check_parents(parents, node_mask, None)
    if depth is not None and depth > MAX_TURNS:
        raise ValueError(
            f"parents must have at most {MAX_TURNS} turns for the progress bonus, which"
            f" compares a retry with its first attempt; got a depth of {depth}"
        )
    shaped = descend(
        jnp.where(node_mask, rewards, 0.0).astype(jnp.float32),
        parents,
        node_mask,
        num_turns=MAX_TURNS,
        combine=lambda own, above: own + alpha * (own - above),
    )
    return jnp.where(node_mask, shaped, 0.0)
