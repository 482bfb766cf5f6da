"""The pruning rules once more: brute force over subsets, in exact fractions.

Written from the formulas alone. Signatures follow `rlvr_jax.credit`; results are bool
NumPy arrays, True where a node is kept.
"""

import itertools
from fractions import Fraction

import numpy as np

from tests.credit.oracle import EQUAL


def _sibling_groups(parents: list[int], mask: list[bool]) -> dict[int, list[int]]:
    """Parent (-1: the prompt) -> its children that are there, by slot."""
    groups: dict[int, list[int]] = {}
    for node, there in enumerate(mask):
        if there:
            groups.setdefault(parents[node], []).append(node)
    return groups


def _turn(node: int, parents: list[int]) -> int:
    return 0 if parents[node] < 0 else 1 + _turn(parents[node], parents)


def _variance(values: list[Fraction], ddof: int) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - ddof)


def spread(values: list[float]) -> Fraction:
    """Variance of a sibling group, ddof 1; 0 for fewer than two and for equal ones."""
    size = max(1.0, *(abs(v) for v in values)) if values else 1.0
    if len(values) < 2 or max(values) - min(values) <= EQUAL * size:
        return Fraction(0)
    return _variance([Fraction(v) for v in values], ddof=1)


def _without_orphans(keep: list[bool], parents: list[int]) -> list[bool]:
    """Descendants of a pruned node are pruned too."""
    keep = list(keep)
    for node, parent in enumerate(parents):
        if keep[node] and parent >= 0:
            keep[node] = keep[parent]
    return keep


def _rows(row_rule, returns, parents, node_mask, **options):
    returns, node_mask = np.asarray(returns, np.float64), np.asarray(node_mask)
    ids = np.broadcast_to(getattr(parents, "parents", parents), returns.shape)
    return np.array(
        [
            row_rule(
                returns[b].tolist(), ids[b].tolist(), node_mask[b].tolist(), **options
            )
            for b in range(len(returns))
        ]
    )


def prune_inter(returns, parents, node_mask, *, num_turns, budget):
    """Keeps the `budget` sibling groups of each turn that spread most.

    The first turn's only group stays. Turn after turn: groups below a pruned node are
    gone before the next turn is ranked. Ties: the group of the lower parent slot.
    """

    def row(values, parents, mask):
        keep = list(mask)
        for turn in range(1, num_turns):
            keep = _without_orphans(keep, parents)
            groups = {
                parent: members
                for parent, members in _sibling_groups(parents, keep).items()
                if parent >= 0 and _turn(members[0], parents) == turn
            }
            ranked = sorted(
                groups,
                key=lambda parent: (
                    -spread([values[i] for i in groups[parent]]),
                    parent,
                ),
            )
            for parent in ranked[budget:]:
                for node in groups[parent]:
                    keep[node] = False
        return _without_orphans(keep, parents)

    return _rows(row, returns, parents, node_mask)


def widest_subset(values: list[float], budget: int) -> list[int]:
    """Indices of the `budget` values of the largest variance, over ALL subsets.

    Several subsets may tie: of the sets {i highest, budget - i lowest} (equal values by
    lower index) that reach the maximum the one with the smallest i.
    """
    if len(values) <= budget:
        return list(range(len(values)))
    exact = [Fraction(v) for v in values]

    def variance(indices):
        return _variance([exact[i] for i in indices], ddof=0)

    largest = max(map(variance, itertools.combinations(range(len(values)), budget)))
    falling = sorted(range(len(values)), key=lambda i: (-exact[i], i))
    for count in range(budget + 1):
        high = falling[:count]
        rest = [i for i in range(len(values)) if i not in high]
        low = sorted(rest, key=lambda i: (exact[i], i))[: budget - count]
        if variance(high + low) == largest:
            return sorted(high + low)
    raise AssertionError("no set of i highest and the rest lowest is widest")


def prune_intra(returns, parents, node_mask, *, num_turns=None, budget):
    """Keeps the `budget` members of each sibling group that spread most."""

    def row(values, parents, mask):
        keep = list(mask)
        for members in _sibling_groups(parents, mask).values():
            kept = widest_subset([values[i] for i in members], budget)
            for place, node in enumerate(members):
                keep[node] = place in kept
        return _without_orphans(keep, parents)

    return _rows(row, returns, parents, node_mask)
