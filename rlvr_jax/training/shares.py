"""What the processes of a run tell each other about the trees that each has grown.

Tokens stay where they were sampled. Rewards, lengths and verdicts, a few numbers per
node, go to everybody: credit, normalisers and metrics are then computed by each
process for the whole batch, with the same result as by one process alone.
"""

import dataclasses

import numpy as np

from rlvr_jax import distributed
from rlvr_jax.metrics import repeated
from rlvr_jax.tree import RolloutTree

SCALARS = (
    "node_mask",
    "context_mask",
    "prompt_lengths",
    "response_lengths",
    "feedback_lengths",
    "rewards",
    "solved",
    "truncated",
)


@dataclasses.dataclass(frozen=True)
class Shared:
    """A step's trees of all processes, and which of them are here.

    Attributes:
        tree: of all prompts; without tokens unless this is the only process.
        entropies: float [B, N], see `Rollout`.
        repeats: bool [B, N], see `metrics.repeated`.
        own: rows that this process has grown.
    """

    tree: RolloutTree
    entropies: np.ndarray
    repeats: np.ndarray
    own: slice


def exchange(tree: RolloutTree, entropies: np.ndarray, *, num_prompts: int) -> Shared:
    """The trees of all processes; a collective if there are several.

    Args:
        tree: of this process's `distributed.share` of the prompts; it may be empty.
        entropies: of its nodes.
        num_prompts: B of the step.
    """
    own = distributed.share(num_prompts)
    arrays = {name: getattr(tree, name) for name in SCALARS}
    arrays |= {"entropies": entropies, "repeats": repeated(tree)}
    arrays = distributed.all_rows(arrays, num_prompts)
    entropies, repeats = arrays.pop("entropies"), arrays.pop("repeats")
    if tree.num_prompts != num_prompts:
        tokens = {
            field.name: np.zeros(
                (num_prompts, *getattr(tree, field.name).shape[1:-1], 0),
                getattr(tree, field.name).dtype,
            )
            for field in dataclasses.fields(tree)
            if field.name not in (*SCALARS, "layout")
        }
        tree = dataclasses.replace(tree, **arrays, **tokens)
    return Shared(tree, entropies, repeats, slice(own.start, own.stop))
