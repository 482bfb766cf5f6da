"""Packed rows as arrays, and slices of them."""

import dataclasses
import functools
import operator
from collections.abc import Iterator

import jax
import numpy as np


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "tokens",
        "positions",
        "last_reader",
        "source",
        "target",
        "response_id",
        "advantages",
        "weights",
        "behavior_log_probs",
        "old_log_probs",
        "ref_log_probs",
        "loss_mask",
    ],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class TrainBatch:
    """Packed rows: the tokens that are read, and the targets that are trained.

    Attributes:
        tokens: int32 [R, L]; 0 in padding.
        positions: int32 [R, L], depth along the node's own path; 0 in padding.
        last_reader: int32 [R, L], last index of the row that may read the token; the
            index itself in padding.
        source: int32 [R, K], index in the row whose hidden state predicts the target:
            the first token of every sibling is predicted from the shared context.
        target: int32 [R, K], the sampled token; 0 in padding.
        response_id: int32 [R, K], row-local number of the response; 0 in padding.
        advantages: float32 [R, K]; 0 in padding.
        weights: float32 [R, K], weight of the token in the loss; 0 in padding.
        behavior_log_probs: float32 [R, K], of the sampler; 0 in padding.
        old_log_probs: float32 [R, K], where the ratio starts; `pack` puts the
            sampler's, a caller may replace them.
        ref_log_probs: float32 [R, K], of the reference policy; 0 until a caller
            replaces them.
        loss_mask: bool [R, K], True where a target is.
    """

    tokens: np.ndarray
    positions: np.ndarray
    last_reader: np.ndarray
    source: np.ndarray
    target: np.ndarray
    response_id: np.ndarray
    advantages: np.ndarray
    weights: np.ndarray
    behavior_log_probs: np.ndarray
    old_log_probs: np.ndarray
    ref_log_probs: np.ndarray
    loss_mask: np.ndarray

    @property
    def num_rows(self) -> int:
        """Number of rows R."""
        return self.tokens.shape[0]


def empty_batch(num_rows: int, *, row_length: int, target_length: int) -> TrainBatch:
    """`num_rows` rows of padding: they weigh 0 and change nothing."""
    row, targets = (num_rows, row_length), (num_rows, target_length)
    own_index = np.arange(row_length, dtype=np.int32)
    return TrainBatch(
        tokens=np.zeros(row, np.int32),
        positions=np.zeros(row, np.int32),
        last_reader=np.tile(own_index, (num_rows, 1)),
        source=np.zeros(targets, np.int32),
        target=np.zeros(targets, np.int32),
        response_id=np.zeros(targets, np.int32),
        advantages=np.zeros(targets, np.float32),
        weights=np.zeros(targets, np.float32),
        behavior_log_probs=np.zeros(targets, np.float32),
        old_log_probs=np.zeros(targets, np.float32),
        ref_log_probs=np.zeros(targets, np.float32),
        loss_mask=np.zeros(targets, bool),
    )


def micro_batches(batch: TrainBatch, rows: int) -> Iterator[TrainBatch]:
    """Slices of `rows` rows each; the last one is filled with rows of padding."""
    row_length, target_length = batch.tokens.shape[1], batch.target.shape[1]
    padding = empty_batch(
        -batch.num_rows % rows, row_length=row_length, target_length=target_length
    )
    whole = jax.tree.map(lambda *parts: np.concatenate(parts), batch, padding)
    for start in range(0, whole.num_rows, rows):
        part = slice(start, start + rows)
        yield jax.tree.map(operator.itemgetter(part), whole)


def count_tokens(batch: TrainBatch) -> int:
    """Tokens in the rows that are not padding."""
    own_index = np.arange(batch.tokens.shape[1])
    real = (batch.positions > 0) | (batch.last_reader > own_index)
    # A prompt of one token that no other token reads shows as a source alone.
    rows, targets = np.nonzero(batch.loss_mask)
    real[rows, batch.source[rows, targets]] = True
    return int(real.sum())
