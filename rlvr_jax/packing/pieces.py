"""Which parts of which trees stand in which row."""

import dataclasses
import functools

import numpy as np

from rlvr_jax.tree import NO_PARENT, RolloutTree, TreeLayout


@dataclasses.dataclass
class Piece:
    """A part of one tree, closed under ancestors, that goes into one row.

    `members` maps slots to whether they are trained here, in depth-first order;
    `extended` are those whose children are here too.
    """

    prompt: int
    size: int
    num_targets: int = 0
    members: dict[int, bool] = dataclasses.field(default_factory=dict)
    extended: set[int] = dataclasses.field(default_factory=set)


def split(
    tree: RolloutTree,
    prompt: int,
    train_mask: np.ndarray,
    row_length: int,
    target_length: int,
) -> list[Piece]:
    """Parts of the tree of `prompt` that hold its trained nodes, each at most a row."""
    lengths = tree.response_lengths[prompt]
    # Nothing is predicted from the last token of a response unless children follow.
    closing = 1 + tree.feedback_lengths[prompt]
    pieces: list[Piece] = []
    for slot in depth_first(tree.layout):
        if not train_mask[prompt, slot]:
            continue
        path = _path(tree.layout, slot)
        if not (
            pieces
            and _add(pieces[-1], path, lengths, closing, row_length, target_length)
        ):
            piece = Piece(prompt, size=int(tree.prompt_lengths[prompt]))
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


def fill_rows(
    pieces: list[Piece], row_length: int, target_length: int
) -> list[list[Piece]]:
    """First fit, largest piece first; ties keep their order."""
    rows: list[list[Piece]] = []
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


def _path(layout: TreeLayout, slot: int) -> list[int]:
    """Ancestors of `slot`, eldest first, and itself."""
    path = []
    while slot != NO_PARENT:
        path.append(slot)
        slot = int(layout.parents[slot])
    return path[::-1]


def _add(
    piece: Piece,
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
