"""Rollout files: one line per attempt, for people and for the report."""

import json
import pathlib

import numpy as np

from rlvr_jax.credit import Credit
from rlvr_jax.rollout import Rollout
from rlvr_jax.tree import NO_PARENT


def write_rollouts(
    path: pathlib.Path, *, step: int, grown: Rollout, assigned: Credit
) -> None:
    """Writes every sampled node of a step as JSON lines.

    Args:
        path: the file; replaced if it is there.
        step: training step.
        grown: the rollout.
        assigned: its credit, on the host.
    """
    layout, tree = grown.tree.layout, grown.tree
    with path.open("w") as file:
        for prompt, task in enumerate(grown.tasks):
            for slot in np.flatnonzero(tree.context_mask[prompt]).tolist():
                verdict = grown.verdicts[prompt][slot]
                parent = int(layout.parents[slot])
                row = {
                    "step": step,
                    "task": task.id,
                    "node": slot,
                    "parent": None if parent == NO_PARENT else parent,
                    "turn": int(layout.turns[slot]) + 1,
                    "prompt": task.prompt if parent == NO_PARENT else None,
                    "response": grown.texts[prompt][slot],
                    "feedback": grown.feedback[prompt].get(slot),
                    "status": verdict.status,
                    "reward": verdict.reward,
                    "solved": verdict.solved,
                    "return": float(assigned.returns[prompt, slot]),
                    "advantage": float(assigned.advantages[prompt, slot]),
                    "kept": bool(assigned.keep_mask[prompt, slot]),
                    "tokens": int(tree.response_lengths[prompt, slot]),
                    "truncated": bool(tree.truncated[prompt, slot]),
                }
                file.write(json.dumps(row) + "\n")
