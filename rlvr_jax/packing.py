"""Packing: rollout trees and their credit -> rows in which each token stands once.

The segments of a tree (its prompt; a response and its feedback) are laid depth-first,
so that everything that may read a token is one interval of the row that begins at the
token: **query i reads key j iff j <= i <= last_reader[j]**. Packed neighbours and plain
causal rows are special cases.

Axes: B prompts, N node slots, R rows, L tokens of a row, K targets of a row.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterator

import jax
import numpy as np

from rlvr_jax.tree import NO_PARENT, RolloutTree, TreeLayout


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


@dataclasses.dataclass
class _Piece:
    """A part of one tree, closed under ancestors, that goes into one row.

    `members` maps slots to whether they are trained here, in depth-first order;
    `extended` are those whose children are here too.
    """

    prompt: int
    size: int
    num_targets: int = 0
    members: dict[int, bool] = dataclasses.field(default_factory=dict)
    extended: set[int] = dataclasses.field(default_factory=set)


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


def pack(
    tree: RolloutTree,
    *,
    advantages: np.ndarray,
    weights: np.ndarray,
    train_mask: np.ndarray,
    row_length: int,
    target_length: int,
) -> TrainBatch:
    """Lays the trained nodes and the ancestors they need into rows.

    A tree that does not fit one row is split into parts; the ancestors that the parts
    share are repeated without targets. A response is never split. Nodes outside
    `train_mask` that nobody needs are left out.

    Args:
        tree: what was sampled.
        advantages: float [B, N].
        weights: float [B, N], weight of each token of the node (`token_weights`).
        train_mask: bool [B, N], nodes whose response tokens become targets.
        row_length: L, at least the longest path from a prompt to a trained node.
        target_length: K, at least the longest trained response.

    Returns:
        `TrainBatch` of as many rows as are needed, 0 if nothing is trained.

    Raises:
        ValueError: a path or a response is longer than a row can hold.

    Example:
        >>> import numpy as np
        >>> from rlvr_jax.tree import TreeLayout, empty_tree
        >>> tree = empty_tree(TreeLayout((2,)), num_prompts=1, prompt_length=2,
        ...                   response_length=2, feedback_length=0)
        >>> tree.prompt_tokens[:], tree.prompt_lengths[:] = [[7, 8]], 2
        >>> tree.response_tokens[:] = [[[3, 4], [5, 6]]]
        >>> tree.response_lengths[:], ones = 2, np.ones((1, 2))
        >>> batch = pack(tree, advantages=ones, weights=ones, train_mask=ones > 0,
        ...              row_length=4, target_length=4)
        >>> batch.tokens.tolist(), batch.last_reader.tolist()
        ([[7, 8, 3, 5]], [[3, 3, 2, 3]])
        >>> batch.source.tolist(), batch.target.tolist()
        ([[1, 2, 1, 3]], [[3, 4, 5, 6]])
    """
    pieces: list[_Piece] = []
    for prompt in np.flatnonzero(train_mask.any(axis=1)):
        pieces += _split(tree, int(prompt), train_mask, row_length, target_length)
    rows = _fill_rows(pieces, row_length, target_length)
    batch = empty_batch(len(rows), row_length=row_length, target_length=target_length)
    for row, contents in enumerate(rows):
        writer = _RowWriter(batch, row, tree, advantages, weights)
        for piece in contents:
            writer.write(piece)
    return batch


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


def count_path_tokens(tree: RolloutTree, train_mask: np.ndarray) -> int:
    """Tokens that one row per trained node would hold: its context and its response.

    As in packed rows, nothing is predicted from a response's last token.
    """
    spans = np.where(
        tree.context_mask, tree.response_lengths + tree.feedback_lengths, 0
    )
    context = np.zeros_like(spans)
    for slot, parent in enumerate(tree.layout.parents):
        if parent == NO_PARENT:
            context[:, slot] = tree.prompt_lengths
        else:
            context[:, slot] = context[:, parent] + spans[:, parent]
    return int((context + tree.response_lengths - 1)[train_mask].sum())


@functools.lru_cache
def depth_first(layout: TreeLayout) -> tuple[int, ...]:
    """All slots, each followed by the subtrees below it."""
    order: list[int] = []
    waiting = list(range(layout.branching[0]))[::-1]
    while waiting:
        slot = waiting.pop()
        order.append(slot)
        waiting += reversed(layout.children(slot))
    return tuple(order)


def _split(
    tree: RolloutTree,
    prompt: int,
    train_mask: np.ndarray,
    row_length: int,
    target_length: int,
) -> list[_Piece]:
    """Parts of the tree of `prompt` that hold its trained nodes, each at most a row."""
    lengths = tree.response_lengths[prompt]
    # Nothing is predicted from the last token of a response unless children follow.
    closing = 1 + tree.feedback_lengths[prompt]
    pieces: list[_Piece] = []
    for slot in depth_first(tree.layout):
        if not train_mask[prompt, slot]:
            continue
        path = _path(tree.layout, slot)
        if not (
            pieces
            and _add(pieces[-1], path, lengths, closing, row_length, target_length)
        ):
            piece = _Piece(prompt, size=int(tree.prompt_lengths[prompt]))
            if not _add(piece, path, lengths, closing, row_length, target_length):
                needed = (
                    piece.size + (lengths[path] - 1).sum() + closing[path[:-1]].sum()
                )
                raise ValueError(
                    f"row_length must hold the longest path and target_length the"
                    f" longest response; got {row_length} and {target_length} for a"
                    f" path of {needed} tokens that ends in a response of"
                    f" {lengths[slot]}: raise update.row_length or"
                    " update.target_length"
                )
            pieces.append(piece)
    return pieces


def _path(layout: TreeLayout, slot: int) -> list[int]:
    """Ancestors of `slot`, eldest first, and itself."""
    path = []
    while slot != NO_PARENT:
        path.append(slot)
        slot = int(layout.parents[slot])
    return path[::-1]


def _add(
    piece: _Piece,
    path: list[int],
    lengths: np.ndarray,
    closing: np.ndarray,
    row_length: int,
    target_length: int,
) -> bool:
    """Adds the last node of `path` as trained if the piece keeps within a row."""
    missing = [slot for slot in path if slot not in piece.members]
    opened = [slot for slot in path[:-1] if slot not in piece.extended]
    size = piece.size + int((lengths[missing] - 1).sum() + closing[opened].sum())
    num_targets = piece.num_targets + int(lengths[path[-1]])
    if size > row_length or num_targets > target_length:
        return False
    piece.size, piece.num_targets = size, num_targets
    piece.members |= {slot: slot == path[-1] for slot in missing}
    piece.extended.update(opened)
    return True


def _fill_rows(
    pieces: list[_Piece], row_length: int, target_length: int
) -> list[list[_Piece]]:
    """First fit, largest piece first; ties keep their order."""
    rows: list[list[_Piece]] = []
    room: list[tuple[int, int]] = []
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        fitting = (
            row
            for row, (tokens, targets) in enumerate(room)
            if piece.size <= tokens and piece.num_targets <= targets
        )
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
            room.append((row_length, target_length))
        tokens, targets = room[row]
        rows[row].append(piece)
        room[row] = (tokens - piece.size, targets - piece.num_targets)
    return rows


class _RowWriter:
    """Writes pieces side by side into one row of a batch."""

    def __init__(
        self,
        batch: TrainBatch,
        row: int,
        tree: RolloutTree,
        advantages: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self._batch, self._row, self._tree = batch, row, tree
        self._advantages, self._weights = advantages, weights
        self._num_tokens = self._num_targets = self._num_responses = 0

    def write(self, piece: _Piece) -> None:
        """Appends the prompt and the members of `piece`."""
        tree, prompt = self._tree, piece.prompt
        start = self._num_tokens
        # Per slot: (index its children are predicted from, their first position).
        ends = {
            NO_PARENT: self._append(
                tree.prompt_tokens[prompt, : tree.prompt_lengths[prompt]], 0
            )
        }
        spans: dict[int, tuple[int, int]] = {}
        for slot, trained in piece.members.items():
            length = int(tree.response_lengths[prompt, slot])
            response = tree.response_tokens[prompt, slot, :length]
            index, position = ends[int(tree.layout.parents[slot])]
            if trained:
                self._target(prompt, slot, response, index)
            segment = response[:-1]
            if slot in piece.extended:
                feedback = tree.feedback_lengths[prompt, slot]
                segment = np.concatenate(
                    [response, tree.feedback_tokens[prompt, slot, :feedback]]
                )
            first = self._num_tokens
            ends[slot] = self._append(segment, position)
            spans[slot] = (first, self._num_tokens)
        self._close(start, piece, spans)

    def _append(self, segment: np.ndarray, position: int) -> tuple[int, int]:
        first, stop = self._num_tokens, self._num_tokens + len(segment)
        self._batch.tokens[self._row, first:stop] = segment
        self._batch.positions[self._row, first:stop] = np.arange(
            position, position + len(segment)
        )
        self._num_tokens = stop
        return stop - 1, position + len(segment)

    def _target(
        self, prompt: int, slot: int, response: np.ndarray, context_end: int
    ) -> None:
        first, stop = self._num_targets, self._num_targets + len(response)
        here = (self._row, slice(first, stop))
        batch = self._batch
        batch.source[here] = [
            context_end,
            *range(self._num_tokens, self._num_tokens + len(response) - 1),
        ]
        batch.target[here] = response
        batch.response_id[here] = self._num_responses
        batch.advantages[here] = self._advantages[prompt, slot]
        batch.weights[here] = self._weights[prompt, slot]
        log_probs = self._tree.behavior_log_probs[prompt, slot, : len(response)]
        batch.behavior_log_probs[here] = batch.old_log_probs[here] = log_probs
        batch.loss_mask[here] = True
        self._num_targets = stop
        self._num_responses += 1

    def _close(
        self, start: int, piece: _Piece, spans: dict[int, tuple[int, int]]
    ) -> None:
        """Sets `last_reader`: a segment is read to the end of the subtree below it."""
        parents = self._tree.layout.parents
        last = {slot: stop - 1 for slot, (_, stop) in spans.items()}
        last_reader = self._batch.last_reader[self._row]
        last_reader[start : self._num_tokens] = self._num_tokens - 1
        for slot in reversed(piece.members):
            parent = int(parents[slot])
            if parent != NO_PARENT:
                last[parent] = max(last[parent], last[slot])
            last_reader[slice(*spans[slot])] = last[slot]
