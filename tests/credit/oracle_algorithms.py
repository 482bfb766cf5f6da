"""Whole algorithms once more: slow, float64, on top of the oracle's rules.

Written from the formulas alone. Signatures follow `rlvr_jax.credit`; results are
float64 NumPy arrays.
"""

import math

import numpy as np

from tests.credit.oracle import (
    group_advantages,
    row_wise,
    sibling_groups,
    stage_groups,
    trajectory,
    turn_of,
)


def dr_grpo(rewards, parents, node_mask):
    """Raw rewards less the siblings' mean."""
    groups = sibling_groups(parents)
    return group_advantages(rewards, groups, node_mask, scale="none")


def rloo(rewards, parents, node_mask):
    """Raw rewards less the mean of the other siblings."""
    return group_advantages(
        rewards,
        sibling_groups(parents),
        node_mask,
        baseline="leave_one_out",
        scale="none",
    )


def maxrl(rewards, parents, node_mask, *, epsilon=1e-6):
    """Raw rewards less the siblings' mean, over that mean."""
    groups = sibling_groups(parents)
    return group_advantages(rewards, groups, node_mask, scale="mean", epsilon=epsilon)


@row_wise
def calibrated_weights(
    rewards, parents, node_mask, *, num_turns, solved=None, max_reward=1.0
):
    """w_k = product of (1 - p_j) over the later stages j, from the row's own rates."""
    if solved is None:
        solved = [reward >= max_reward - 1e-6 for reward in rewards]
    present = [i for i, there in enumerate(node_mask) if there]

    def failing(stage):
        reached = [solved[i] for i in present if turn_of(i, parents) == stage]
        return 1.0 - sum(reached) / len(reached) if reached else 1.0

    def weight(node):
        later = range(turn_of(node, parents) + 1, num_turns + 1)
        return math.prod(failing(stage) for stage in later)

    return [weight(i) if there else 0.0 for i, there in enumerate(node_mask)]


def cal_grpo(
    rewards,
    parents,
    node_mask,
    *,
    num_turns,
    solved=None,
    max_reward=1.0,
    ddof=1,
    epsilon=1e-6,
):
    """Raw rewards among the attempts of one stage, times the calibrated weight."""
    weights = calibrated_weights(
        rewards,
        parents,
        node_mask,
        num_turns=num_turns,
        solved=solved,
        max_reward=max_reward,
    )
    return weights * group_advantages(
        rewards, stage_groups(parents), node_mask, ddof=ddof, epsilon=epsilon
    )


def multi_attempt_grpo(
    rewards, parents, node_mask, *, num_turns=None, ddof=1, epsilon=1e-6
):
    """Best reward of each turn-0 subtree among the roots; descendants inherit."""
    returns = trajectory(rewards, parents, node_mask)
    ids = np.broadcast_to(getattr(parents, "parents", parents), returns.shape)
    roots = np.asarray(node_mask) & (ids < 0)
    advantages = group_advantages(
        returns, np.zeros_like(ids), roots, ddof=ddof, epsilon=epsilon
    )

    def inherited(b, node):
        above = ids[b, node]
        return advantages[b, node] if above < 0 else inherited(b, above)

    for b, node in np.argwhere(node_mask):
        advantages[b, node] = inherited(b, node)
    return advantages


def whiten(advantages, weights, mask, *, epsilon=1e-8, ddof=0):
    """(A - mean) / sqrt(var + epsilon) over all trained tokens of all rows.

    A node of weight w stands for w tokens. verl's variance has ddof 1; on a batch of
    thousands of tokens that is the same number.
    """
    present = [(b, n) for b, n in np.argwhere(mask)]
    tokens = [
        float(advantages[b, n]) for b, n in present for _ in range(int(weights[b, n]))
    ]
    result = np.zeros(np.shape(mask))
    if len(tokens) <= ddof:
        return result
    mean = math.fsum(tokens) / len(tokens)
    variance = math.fsum((token - mean) ** 2 for token in tokens) / (len(tokens) - ddof)
    for b, n in present:
        result[b, n] = (float(advantages[b, n]) - mean) / math.sqrt(variance + epsilon)
    return result


def reinforce_pp(rewards, parents, node_mask, *, response_lengths, epsilon=1e-8):
    """Raw rewards less the siblings' mean, whitened over the tokens of the batch."""
    centred = dr_grpo(rewards, parents, node_mask)
    return whiten(centred, response_lengths, node_mask, epsilon=epsilon)
