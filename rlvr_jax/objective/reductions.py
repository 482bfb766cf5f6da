"""How the losses of all tokens become one number: token weights, fixed beforehand.

The weights are known before any micro-batching, so that sums over micro-batches,
devices and hosts add up to exactly the same loss and gradient. NumPy, on the host.
"""

import numpy as np

from rlvr_jax.objective import checks

REDUCTIONS = ("token", "response", "constant", "group")


def weight_shares(
    reduction: str,
    response_lengths: np.ndarray,
    node_mask: np.ndarray,
    groups: np.ndarray,
    *,
    max_length: int | None = None,
) -> tuple[np.ndarray, float]:
    """Token weights before the division by a total that hosts add up.

    Args:
        reduction, response_lengths, node_mask, groups, max_length: as `token_weights`.

    Returns:
        (shares float64 [B, N], total): the weight of each token of a node is its share
        over the sum of the totals of all hosts.

    Raises:
        ValueError: as `token_weights`.

    Example:
        >>> import numpy as np
        >>> mask, lengths = np.ones((1, 2), bool), np.array([[1, 4]])
        >>> shares, total = weight_shares("response", lengths, mask, np.zeros(2, int))
        >>> shares.tolist(), total
        ([[1.0, 0.25]], 2.0)
    """
    _check(reduction, response_lengths, node_mask, groups)
    lengths = np.where(node_mask, np.maximum(response_lengths, 1), 1).astype(np.float64)
    present = node_mask.astype(np.float64)
    if reduction == "token":
        return present, float((lengths * present).sum())
    if reduction == "response":
        return present / lengths, float(present.sum())
    if reduction == "constant":
        if max_length is None or max_length < 1:
            raise ValueError(
                "max_length must be the response limit in tokens, >= 1, for the"
                f" reduction 'constant'; got {max_length}"
            )
        return present / max_length, float(present.sum())
    members = _group_sizes(groups, node_mask)
    return present / (members * lengths), float((present / members).sum())


def token_weights(
    reduction: str,
    response_lengths: np.ndarray,
    node_mask: np.ndarray,
    groups: np.ndarray,
    *,
    max_length: int | None = None,
    total: float | None = None,
) -> np.ndarray:
    """The weight of EACH token of a node in the loss.

    `token`: 1 / trained tokens of the batch. `response`: 1 / (responses x own length).
    `constant`: 1 / (responses x max_length). `group`: 1 / (members of the group x own
    length), then the mean over the groups that have members.

    Args:
        reduction: one of the names above.
        response_lengths: int [B, N], trained tokens of each node.
        node_mask: bool [B, N], nodes that count (present and not pruned).
        groups: int [N] or [B, N], row-local group ids; read by `group` alone.
        max_length: response limit in tokens; needed by `constant` alone.
        total: divisor; default the one of this batch, `weight_shares(...)[1]`.

    Returns:
        float32 [B, N]; 0 where `node_mask` is False, all 0 if nothing counts.

    Raises:
        ValueError: an unknown reduction, `constant` without `max_length`, or an
            argument with a wrong shape or dtype.

    Source: DAPO (`token`), GRPO (`response`), Dr.GRPO (`constant`), Murphy's objective
    as we read it (`group`).

    Example:
        >>> import numpy as np
        >>> mask = np.ones((1, 2), bool)
        >>> lengths = np.array([[1, 3]])
        >>> token_weights("token", lengths, mask, np.zeros(2, int)).tolist()
        [[0.25, 0.25]]
    """
    shares, local = weight_shares(
        reduction, response_lengths, node_mask, groups, max_length=max_length
    )
    total = local if total is None else total
    if total == 0:
        return np.zeros(node_mask.shape, np.float32)
    return (shares / total).astype(np.float32)


def _check(
    reduction: str,
    response_lengths: np.ndarray,
    node_mask: np.ndarray,
    groups: np.ndarray,
) -> None:
    """Raises ValueError for an unknown reduction, a wrong shape or a wrong dtype."""
    checks.check_choice("reduction", reduction, REDUCTIONS)
    checks.check_mask("node_mask", node_mask)
    if node_mask.ndim != 2:
        raise ValueError(f"node_mask must be [B, N]; got shape {node_mask.shape}")
    checks.check_integers("response_lengths", response_lengths)
    checks.check_shape(
        "response_lengths", response_lengths, "node_mask", node_mask.shape
    )
    checks.check_integers("groups", groups)
    if groups.shape not in (node_mask.shape, node_mask.shape[1:]):
        raise ValueError(
            f"groups must be [N] or [B, N] for node_mask {node_mask.shape};"
            f" got shape {groups.shape}"
        )


def _group_sizes(groups: np.ndarray, node_mask: np.ndarray) -> np.ndarray:
    """Present members of each node's group, float64 [B, N], at least 1."""
    groups = np.broadcast_to(groups, node_mask.shape)
    ids = np.where(node_mask, groups, 0)
    width = int(ids.max(initial=0)) + 1
    flat = ids + np.arange(len(ids))[:, None] * width
    counts = np.bincount(
        flat.ravel(), weights=node_mask.ravel(), minlength=len(ids) * width
    )
    return np.maximum(counts[flat], 1.0)
