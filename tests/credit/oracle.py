"""The credit rules once more: slow, recursive, float64, one row at a time.

Written from the formulas alone, so that the array kernels have something independent to
agree with. Signatures follow `rlvr_jax.credit`; results are float64 NumPy arrays.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np

EQUAL = 1e-6  # a group whose spread is below this (relative) has no signal


def level_order_parents(branching: Sequence[int]) -> list[int]:
    """Parents of the full tree, turn after turn, siblings next to each other."""
    parents, previous = [], [-1]
    for width in branching:
        start = len(parents)
        parents += [parent for parent in previous for _ in range(width)]
        previous = list(range(start, len(parents)))
    return parents


def row_wise(row_function: Callable) -> Callable:
    """Lifts (rewards [N], parents or groups [N], mask [N]) to a batch of rows.

    Arguments named `solved` are sliced by row too; a layout stands for its parents.
    """

    @functools.wraps(row_function)
    def batched(values, ids, node_mask, **options):
        values, node_mask = np.asarray(values, np.float64), np.asarray(node_mask)
        ids = np.asarray(getattr(ids, "parents", ids))
        ids = np.broadcast_to(ids, values.shape)
        result = np.zeros(values.shape)
        for b in range(values.shape[0]):
            row = dict(options)
            if row.get("solved") is not None:
                row["solved"] = np.asarray(row["solved"])[b].tolist()
            result[b] = row_function(
                values[b].tolist(), ids[b].tolist(), node_mask[b].tolist(), **row
            )
        return result

    batched.__signature__ = inspect.signature(row_function)
    return batched


def _children(node: int, parents: list[int], mask: list[bool]) -> list[int]:
    return [c for c, p in enumerate(parents) if mask[c] and p == node]


def turn_of(node: int, parents: list[int]) -> int:
    """1 for a root. An absent ancestor still counts: the slot has a depth."""
    return 1 if parents[node] < 0 else 1 + turn_of(parents[node], parents)


@row_wise
def mars(rewards, parents, node_mask, *, num_turns=None):
    """R(o) = max(r(o), best R among the children that are there)."""

    def returns(node):
        below = [returns(child) for child in _children(node, parents, node_mask)]
        return max([rewards[node], *below])

    return [returns(i) if there else 0.0 for i, there in enumerate(node_mask)]


@row_wise
def mers(
    rewards,
    parents,
    node_mask,
    *,
    num_turns,
    discount=0.9,
    solved=None,
    max_reward=1.0,
):
    """R(o) = (r + discount * mean of the children) / (S - s + 1) while unsolved.

    A solved node keeps R = r even where something (say, a policy that expands every
    node) gave it children. Children that are absent do not exist; with none left the
    mean is 0 and the divisor stays.
    """

    def is_solved(node):
        if solved is not None:
            return solved[node]
        return rewards[node] >= max_reward - 1e-6

    def returns(node):
        if is_solved(node):
            return rewards[node]
        below = [returns(child) for child in _children(node, parents, node_mask)]
        mean = sum(below) / len(below) if below else 0.0
        left = num_turns - turn_of(node, parents)
        return (rewards[node] + discount * mean) / (left + 1)

    return [returns(i) if there else 0.0 for i, there in enumerate(node_mask)]


@row_wise
def trajectory(rewards, parents, node_mask, *, num_turns=None):
    """Every attempt gets the best reward in the subtree of its turn-0 ancestor."""

    def root(node):
        return node if parents[node] < 0 else root(parents[node])

    def best(top):
        together = [i for i, there in enumerate(node_mask) if there and root(i) == top]
        return max(rewards[i] for i in together)

    return [best(root(i)) if there else 0.0 for i, there in enumerate(node_mask)]


@row_wise
def progress_bonus(rewards, parents, node_mask, *, alpha):
    """r_2 + alpha (r_2 - r_1) for a second attempt, r_1 for a first one."""

    def shaped(node):
        if parents[node] < 0:
            return rewards[node]
        return rewards[node] + alpha * (rewards[node] - rewards[parents[node]])

    return [shaped(i) if there else 0.0 for i, there in enumerate(node_mask)]


def sibling_groups(parents):
    """Id of the node that asked for the response, plus one; 0 is the prompt."""
    return np.asarray(getattr(parents, "parents", parents)) + 1


def prompt_groups(parents):
    """One group per row."""
    return np.zeros_like(np.asarray(getattr(parents, "parents", parents)))


def stage_groups(parents, *, num_turns=None):
    """Attempt k of whoever reached it: id = depth. Junk parents (padding) give 0."""
    parents = np.asarray(getattr(parents, "parents", parents))

    def stage(row, node):
        parent = row[node]
        return 1 + stage(row, parent) if 0 <= parent < node else 0

    rows = parents.reshape(-1, parents.shape[-1])
    ids = [[stage(row, node) for node in range(len(row))] for row in rows]
    return np.reshape(ids, parents.shape)


@row_wise
def group_advantages(
    returns,
    groups,
    node_mask,
    *,
    num_groups=None,
    baseline="mean",
    scale="std",
    ddof=1,
    epsilon=1e-6,
):
    """(R - baseline) / scale inside each group of one row.

    Groups of one and groups of equal returns give exactly 0, whatever the baseline and
    the scale: the rule is stated for every estimator, so also for baseline "none".
    """

    def advantage(node):
        group = [
            returns[i]
            for i, there in enumerate(node_mask)
            if there and groups[i] == groups[node]
        ]
        n = len(group)
        spread = max(group) - min(group)
        if n == 1 or spread <= EQUAL * max(1.0, *(abs(value) for value in group)):
            return 0.0
        mean = math.fsum(group) / n
        others = (math.fsum(group) - returns[node]) / (n - 1)
        variance = math.fsum((value - mean) ** 2 for value in group) / (n - ddof)
        base = {"mean": mean, "leave_one_out": others, "none": 0.0}[baseline]
        unit = {
            "std": math.sqrt(variance) + epsilon,
            "mean": mean + epsilon,
            "none": 1.0,
        }[scale]
        return (returns[node] - base) / unit

    return [advantage(i) if there else 0.0 for i, there in enumerate(node_mask)]


def grpo(rewards, parents, node_mask, *, ddof=1, epsilon=1e-6):
    """Raw rewards among siblings."""
    return group_advantages(
        rewards, sibling_groups(parents), node_mask, ddof=ddof, epsilon=epsilon
    )


def murphy(
    rewards,
    parents,
    node_mask,
    *,
    num_turns,
    backup="mars",
    discount=0.9,
    solved=None,
    max_reward=1.0,
    ddof=1,
    epsilon=1e-6,
):
    """Backed-up returns among siblings."""
    if backup == "mars":
        returns = mars(rewards, parents, node_mask)
    else:
        returns = mers(
            rewards,
            parents,
            node_mask,
            num_turns=num_turns,
            discount=discount,
            solved=solved,
            max_reward=max_reward,
        )
    return group_advantages(
        returns, sibling_groups(parents), node_mask, ddof=ddof, epsilon=epsilon
    )


def reapo(rewards, parents, node_mask, *, ddof=1, epsilon=1e-6):
    """Raw rewards of all attempts of all rollouts of one prompt."""
    return group_advantages(
        rewards, prompt_groups(parents), node_mask, ddof=ddof, epsilon=epsilon
    )
