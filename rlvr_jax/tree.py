"""The rollout tree: one node per attempt, stored as padded arrays.

Axes, everywhere in this project:
    B prompts    N node slots    T response tokens    F feedback tokens
    P prompt tokens    S turns

A `TreeLayout` is the static shape of every tree of a run: slots stand in level
order, so the nodes of a turn are one slice and the children of a slot are
neighbours. A `RolloutTree` holds what happened. A node's context is its prompt
followed by (response + feedback) of each ancestor; nothing is stored twice.
"""

import dataclasses
import functools
import math

import jax
import numpy as np

NO_PARENT = -1  # parent of the nodes of turn 0


@dataclasses.dataclass(frozen=True)
class TreeLayout:
    """Static slots of a tree in which a node of turn s has `branching[s + 1]` children.

    Args:
        branching: children per context, one entry per turn, each >= 1;
            `(8, 8)` is 8 first attempts and 8 retries for each of them.

    Raises:
        ValueError: `branching` is empty or holds something below 1.

    Example:
        >>> layout = TreeLayout(branching=(2, 2))
        >>> layout.num_nodes, layout.parents.tolist()
        (6, [-1, -1, 0, 0, 1, 1])
    """

    branching: tuple[int, ...]

    def __post_init__(self) -> None:
        valid = len(self.branching) > 0 and all(
            isinstance(size, int | np.integer) and size >= 1 for size in self.branching
        )
        if not valid:
            raise ValueError(
                "branching must hold one integer >= 1 per turn, for example (8, 8);"
                f" got {self.branching!r}"
            )
        object.__setattr__(self, "branching", tuple(int(g) for g in self.branching))

    @property
    def num_turns(self) -> int:
        """Number of turns S."""
        return len(self.branching)

    @functools.cached_property
    def turn_sizes(self) -> tuple[int, ...]:
        """Number of slots of each turn, length S."""
        return tuple(
            math.prod(self.branching[: turn + 1]) for turn in range(self.num_turns)
        )

    @property
    def num_nodes(self) -> int:
        """Number of slots N, the sum over the turns."""
        return sum(self.turn_sizes)

    def turn_slice(self, turn: int) -> slice:
        """Slots of a 0-based turn."""
        start = sum(self.turn_sizes[:turn])
        return slice(start, start + self.turn_sizes[turn])

    def children(self, slot: int) -> range:
        """Slots of the children of `slot`; empty on the last turn."""
        turn = int(self.turns[slot])
        if turn + 1 == self.num_turns:
            return range(0)
        size = self.branching[turn + 1]
        start = self.turn_slice(turn + 1).start
        first = start + (slot - self.turn_slice(turn).start) * size
        return range(first, first + size)

    @functools.cached_property
    def turns(self) -> np.ndarray:
        """0-based turn of each slot, int32 [N]."""
        return np.repeat(np.arange(self.num_turns), self.turn_sizes).astype(np.int32)

    @functools.cached_property
    def parents(self) -> np.ndarray:
        """Parent slot of each slot, int32 [N]; `NO_PARENT` on turn 0."""
        parents = [np.full(self.turn_sizes[0], NO_PARENT)]
        for turn in range(1, self.num_turns):
            above = self.turn_slice(turn - 1)
            slots = np.arange(above.start, above.stop)
            parents.append(np.repeat(slots, self.branching[turn]))
        return np.concatenate(parents).astype(np.int32)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "prompt_tokens",
        "prompt_lengths",
        "node_mask",
        "context_mask",
        "response_tokens",
        "response_lengths",
        "behavior_log_probs",
        "rewards",
        "solved",
        "truncated",
        "feedback_tokens",
        "feedback_lengths",
    ],
    meta_fields=["layout"],
)
@dataclasses.dataclass(frozen=True)
class RolloutTree:
    """Everything that was sampled and graded for B prompts, as padded arrays.

    Padding may hold anything: lengths and masks alone say what is real.

    Attributes:
        layout: static `TreeLayout` with N slots.
        prompt_tokens: int32 [B, P].
        prompt_lengths: int32 [B], >= 1.
        node_mask: bool [B, N], True where a graded response is.
        context_mask: bool [B, N], True where a response was sampled, graded or not:
            a node whose verification failed stays as the context of its children.
        response_tokens: int32 [B, N, T], as sampled; a sampled stop token is part.
        response_lengths: int32 [B, N], >= 1 where `context_mask`.
        behavior_log_probs: float32 [B, N, T], of the sampler, <= 0.
        rewards: float32 [B, N], what credit reads (shaped if shaping is on).
        solved: bool [B, N], the verifier's word, before any shaping.
        truncated: bool [B, N], cut by a limit: no stop token was sampled.
        feedback_tokens: int32 [B, N, F], appended AFTER the node's response before
            its children answer: closing glue, feedback, generation prompt.
        feedback_lengths: int32 [B, N], 0 where nothing was appended.
    """

    prompt_tokens: np.ndarray
    prompt_lengths: np.ndarray
    node_mask: np.ndarray
    context_mask: np.ndarray
    response_tokens: np.ndarray
    response_lengths: np.ndarray
    behavior_log_probs: np.ndarray
    rewards: np.ndarray
    solved: np.ndarray
    truncated: np.ndarray
    feedback_tokens: np.ndarray
    feedback_lengths: np.ndarray
    layout: TreeLayout

    @property
    def num_prompts(self) -> int:
        """Number of prompts B."""
        return self.node_mask.shape[0]


def empty_tree(
    layout: TreeLayout,
    *,
    num_prompts: int,
    prompt_length: int,
    response_length: int,
    feedback_length: int,
) -> RolloutTree:
    """A tree of `num_prompts` prompts in which nothing was sampled yet (NumPy, host).

    Args:
        layout: slots of each tree.
        num_prompts: B.
        prompt_length: P, response_length: T, feedback_length: F, capacities in tokens.

    Returns:
        A `RolloutTree` of zeros with all masks False; its arrays are written in place
        by the rollout that owns it.
    """
    nodes = (num_prompts, layout.num_nodes)
    return RolloutTree(
        prompt_tokens=np.zeros((num_prompts, prompt_length), np.int32),
        prompt_lengths=np.zeros(num_prompts, np.int32),
        node_mask=np.zeros(nodes, bool),
        context_mask=np.zeros(nodes, bool),
        response_tokens=np.zeros((*nodes, response_length), np.int32),
        response_lengths=np.zeros(nodes, np.int32),
        behavior_log_probs=np.zeros((*nodes, response_length), np.float32),
        rewards=np.zeros(nodes, np.float32),
        solved=np.zeros(nodes, bool),
        truncated=np.zeros(nodes, bool),
        feedback_tokens=np.zeros((*nodes, feedback_length), np.int32),
        feedback_lengths=np.zeros(nodes, np.int32),
        layout=layout,
    )
