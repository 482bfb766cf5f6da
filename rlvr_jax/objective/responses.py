"""Sums over the tokens of a response, wherever packing put them in their row."""

import jax
import jax.numpy as jnp

from rlvr_jax.objective import checks


def response_sums(
    values: jax.Array, response_id: jax.Array, mask: jax.Array
) -> jax.Array:
    """Σ of `values` over the response of each token, seen by each of its tokens.

    Args:
        values: float [R, K].
        response_id: int [R, K], number of the response in its row, in [0, K).
        mask: bool [R, K], True where a token is; elsewhere values and ids may hold
            anything.

    Returns:
        float32 [R, K]; 0 where `mask` is False.

    Raises:
        ValueError: shapes differ, ids are not integers or (eager) out of range, or the
            mask is not bool.

    A response never spans two rows, so no sum crosses rows, micro-batches or devices.

    Example:
        >>> import jax.numpy as jnp
        >>> ids = jnp.array([[0, 0, 1, 9]])
        >>> mask = jnp.array([[True, True, True, False]])
        >>> response_sums(jnp.array([[1.0, 2.0, 4.0, jnp.nan]]), ids, mask).tolist()
        [[3.0, 3.0, 4.0, 0.0]]
    """
    checks.check_mask("mask", mask)
    checks.check_integers("response_id", response_id)
    checks.check_shape("response_id", response_id, "mask", mask.shape)
    checks.check_shape("values", values, "mask", mask.shape)
    if mask.ndim != 2:
        raise ValueError(f"mask must be [R, K]; got shape {mask.shape}")
    checks.check_ids("response_id", response_id, mask)

    def row(values: jax.Array, ids: jax.Array) -> jax.Array:
        return jnp.zeros_like(values).at[ids].add(values)[ids]

    # Ids in padding may lie outside the row.
    ids = jnp.where(mask, response_id, 0)
    values = jnp.where(mask, values, 0.0).astype(jnp.float32)
    return jnp.where(mask, jax.vmap(row)(values, ids), 0.0)


def response_means(
    values: jax.Array, response_id: jax.Array, mask: jax.Array
) -> jax.Array:
    """Mean of `values` over the response of each token, seen by each of its tokens.

    Args:
        values, response_id, mask: as `response_sums`.

    Returns:
        float32 [R, K]; 0 where `mask` is False.

    Raises:
        ValueError: as `response_sums`.

    Example:
        >>> import jax.numpy as jnp
        >>> ids, mask = jnp.array([[0, 0, 1]]), jnp.ones((1, 3), bool)
        >>> response_means(jnp.array([[1.0, 2.0, 4.0]]), ids, mask).tolist()
        [[1.5, 1.5, 4.0]]
    """
    counts = response_sums(mask.astype(jnp.float32), response_id, mask)
    return response_sums(values, response_id, mask) / jnp.maximum(counts, 1.0)
