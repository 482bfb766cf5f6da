"""Writes trees into rows, depth-first."""

import numpy as np

from rlvr_jax.packing.batch import TrainBatch, empty_batch
from rlvr_jax.packing.pieces import Piece, fill_rows, split
from rlvr_jax.tree import NO_PARENT, RolloutTree


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
    pieces: list[Piece] = []
    for prompt in np.flatnonzero(train_mask.any(axis=1)):
        pieces += split(tree, int(prompt), train_mask, row_length, target_length)
    rows = fill_rows(pieces, row_length, target_length)
    batch = empty_batch(len(rows), row_length=row_length, target_length=target_length)
    for row, contents in enumerate(rows):
        writer = _RowWriter(batch, row, tree, advantages, weights)
        for piece in contents:
            writer.write(piece)
    return batch


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

    def write(self, piece: Piece) -> None:
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
        self, start: int, piece: Piece, spans: dict[int, tuple[int, int]]
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
