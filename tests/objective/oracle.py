"""Token losses and token weights once more: scalars, loops, float64.

Written from the formulas alone. The surrogates take one token; `token_weights` loops
over the responses of a batch.
"""

import math
from collections.abc import Sequence

import numpy as np

LIMIT = 20.0  # log-ratios are clamped to +-LIMIT before exp


def _ratio(difference: float) -> float:
    return math.exp(min(max(difference, -LIMIT), LIMIT))


def reinforce(log_prob: float, old_log_prob: float, advantage: float) -> float:
    """-A logp; the old policy plays no part."""
    return -advantage * log_prob


def clip(
    log_prob: float,
    old_log_prob: float,
    advantage: float,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> float:
    """-min(rho A, clip(rho) A); for A < 0 a dual clip c bounds the loss by c |A|."""
    ratio = _ratio(log_prob - old_log_prob)
    clipped = min(max(ratio, 1.0 - clip_low), 1.0 + clip_high)
    gain = min(ratio * advantage, clipped * advantage)
    if dual_clip is not None and advantage < 0:
        gain = max(gain, dual_clip * advantage)
    return -gain


def k3(log_prob: float, ref_log_prob: float) -> float:
    """exp(d) - d - 1 with d = ref - logp. The same clamped d stands in both places:
    with the raw d in the second the estimate could be negative."""
    difference = min(max(ref_log_prob - log_prob, -LIMIT), LIMIT)
    return math.exp(difference) - difference - 1.0


def token_weights(
    reduction: str,
    response_lengths: Sequence,
    node_mask: Sequence,
    groups: Sequence,
    *,
    max_length: int | None = None,
    total: float | None = None,
) -> np.ndarray:
    """The weight of each token of each response.

    `total` replaces what the batch would divide by (tokens, responses or groups), for
    a batch that is one part of a larger one. Groups live inside one row.
    """
    node_mask = np.asarray(node_mask)
    groups = np.broadcast_to(groups, node_mask.shape)
    present = [(int(b), int(n)) for b, n in np.argwhere(node_mask)]
    lengths = {bn: int(np.asarray(response_lengths)[bn]) for bn in present}
    members: dict = {}
    for b, n in present:
        members.setdefault((b, int(groups[b, n])), []).append((b, n))
    if total is None:
        total = {
            "token": sum(lengths.values()),
            "response": len(present),
            "constant": len(present),
            "group": len(members),
        }[reduction]
    weights = np.zeros(node_mask.shape)
    for b, n in present:
        weights[b, n] = {
            "token": lambda length, size: 1.0,
            "response": lambda length, size: 1.0 / length,
            "constant": lambda length, size: 1.0 / max_length,
            "group": lambda length, size: 1.0 / (size * length),
        }[reduction](lengths[b, n], len(members[b, int(groups[b, n])])) / total
    return weights
