"""Packing: rollout trees and their credit -> rows in which each token stands once.

The segments of a tree (its prompt; a response and its feedback) are laid depth-first,
so that everything that may read a token is one interval of the row that begins at the
token: **query i reads key j iff j <= i <= last_reader[j]**. Packed neighbours and plain
causal rows are special cases.

Axes: B prompts, N node slots, R rows, L tokens of a row, K targets of a row.
"""

from rlvr_jax.packing.batch import (
    TrainBatch,
    count_tokens,
    empty_batch,
    micro_batches,
)
from rlvr_jax.packing.rows import count_path_tokens, pack

__all__ = [
    "TrainBatch",
    "count_path_tokens",
    "count_tokens",
    "empty_batch",
    "micro_batches",
    "pack",
]
