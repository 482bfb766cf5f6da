"""What a rollout is given, and what comes out of it."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from rlvr_jax import tree
from rlvr_jax.envs import Verdict
from rlvr_jax.tasks import Task

# Grades a batch of (task, response text), in order: `Verifier.verify`.
Verify = Callable[[list[tuple[Task, str]]], list[Verdict]]


@dataclasses.dataclass(frozen=True)
class Limits:
    """How far a rollout goes.

    Attributes:
        layout: branching of each turn.
        prompt_tokens, response_tokens, feedback_tokens: capacities in tokens; the
            feedback's includes the glue of the chat template.
        budget: response tokens that the attempts of one path share; 0: no such limit.
        expand: who gets children: `unsolved`, `visible_failed` (a visible test failed)
            or `all`.
        feedback: text for every expanded node; "": what the verifier says.
    """

    layout: tree.TreeLayout
    prompt_tokens: int
    response_tokens: int
    feedback_tokens: int
    budget: int = 0
    expand: str = "unsolved"
    feedback: str = ""


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A sampled and graded tree per prompt.

    Attributes:
        tree: the arrays that training reads.
        tasks: B tasks.
        texts: responses as text, per prompt a dict from slot.
        feedback: text of the feedback that was appended, likewise.
        verdicts: likewise.
        entropies: float32 [B, N], sum over the response's tokens, in nats.
        seconds: time per phase: `sample`; `verify`, for which sampling waited; and
            `verify_hidden`, for which the verifier ran while sampling went on.
    """

    tree: tree.RolloutTree
    tasks: Sequence[Task]
    texts: list[dict[int, str]]
    feedback: list[dict[int, str]]
    verdicts: list[dict[int, Verdict]]
    entropies: np.ndarray
    seconds: dict[str, float]

    @property
    def statuses(self) -> list[str]:
        """The status of every verdict."""
        return [verdict.status for row in self.verdicts for verdict in row.values()]
