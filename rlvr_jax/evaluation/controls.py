"""Is feedback used? Retries with the true feedback against two controls.

A retry may succeed because it is another draw, or because a second turn differs from a
first one. The controls take these apart: a fresh draw from the prompt, and a retry that
is shown another task's feedback.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from rlvr_jax import sampling
from rlvr_jax.config import Config
from rlvr_jax.envs import Verdict
from rlvr_jax.evaluation.estimates import mean_interval
from rlvr_jax.rollout import Verify
from rlvr_jax.tasks import Task, Tokenizer

Node = tuple[int, int]


def feedback_controls(
    sampler: sampling.Sampler,
    params: dict[str, Any],
    tasks: Sequence[Task],
    *,
    config: Config,
    tokenizer: Tokenizer,
    verify: Verify,
) -> dict[str, Any]:
    """P(solved on turn 2 | visible tests failed on turn 1), three ways.

    Args:
        sampler: of the policy.
        params: plain parameters.
        tasks: held-out tasks; each gets `eval.samples` first attempts.
        config: sections `eval` and `rollout`.
        tokenizer: of the policy.
        verify: grades a batch.

    Returns:
        Intervals (95 %, over tasks with a failed attempt) of `true`, `other_task` and
        `fresh_draw`, and of the paired differences `true - other_task` and
        `true - fresh_draw`; `attempts` counts the failed first attempts.

    Raises:
        ValueError: no first attempt failed.
    """
    key = jax.random.key(config.eval.seed)
    trial = _Trial(sampler, params, tasks, config, tokenizer, verify)
    first, verdicts = trial.draw(jax.random.fold_in(key, 1))
    failed = [
        node
        for node, verdict in verdicts.items()
        if verdict.reward is not None and not verdict.visible_passed
    ]
    if not failed:
        raise ValueError("controls need first attempts that fail; none of them did")
    true = [verdicts[node].feedback for node in failed]
    # Half a turn around the list: another task's message, unless one task has half of
    # all failures.
    strangers = np.roll(np.arange(len(failed)), len(failed) // 2)
    other = [true[i] for i in strangers]
    again = jax.random.fold_in(key, 2)
    _, fresh = trial.draw(jax.random.fold_in(key, 3))
    outcomes = {
        "true": trial.retry(first, failed, true, again),
        "other_task": trial.retry(first, failed, other, again),
        "fresh_draw": [fresh[node].solved for node in failed],
    }
    outcomes = {name: np.array(solved, float) for name, solved in outcomes.items()}
    return _compare(outcomes, np.array([m for m, _ in failed]))


@dataclasses.dataclass(frozen=True)
class _Trial:
    """First attempts at all tasks, and retries of some of them.

    Attributes: as the arguments of `feedback_controls`.
    """

    sampler: sampling.Sampler
    params: dict[str, Any]
    tasks: Sequence[Task]
    config: Config
    tokenizer: Tokenizer
    verify: Verify

    def draw(self, key: jax.Array) -> tuple[sampling.Samples, dict[Node, Verdict]]:
        """`eval.samples` answers to each task, and their verdicts."""
        samples = self.sampler.generate(
            self.params,
            [self.tokenizer.prompt_ids(task.prompt) for task in self.tasks],
            context_ids=range(len(self.tasks)),
            num_samples=self.config.eval.samples,
            key=key,
            **self._settings(),
        )
        return samples, self._grade(samples, range(len(self.tasks)))

    def retry(
        self,
        first: sampling.Samples,
        nodes: Sequence[Node],
        messages: Sequence[str],
        key: jax.Array,
    ) -> list[bool]:
        """Whether one more attempt after each message solves the node's task."""
        samples = self.sampler.extend(
            self.params,
            first,
            select=nodes,
            appendix=[
                self.tokenizer.appendix_ids(message, closed=not first.truncated[node])
                for node, message in zip(nodes, messages, strict=True)
            ],
            context_ids=range(len(nodes)),
            num_samples=1,
            key=key,
            **self._settings(),
        )
        verdicts = self._grade(samples, [m for m, _ in nodes])
        return [verdicts[i, 0].solved for i in range(len(nodes))]

    def _settings(self) -> dict[str, Any]:
        section = self.config.eval
        return {
            "max_new_tokens": self.config.rollout.max_response_tokens,
            "stop_ids": self.tokenizer.stop_ids,
            "temperature": section.temperature,
            "top_p": section.top_p,
            "top_k": section.top_k,
        }

    def _grade(
        self, samples: sampling.Samples, owners: Sequence[int]
    ) -> dict[Node, Verdict]:
        """Verdicts of all samples; context m belongs to task owners[m]."""
        nodes = list(np.ndindex(samples.lengths.shape))
        pairs = [
            (
                self.tasks[owners[m]],
                self.tokenizer.decode(samples.tokens[m, g, : samples.lengths[m, g]]),
            )
            for m, g in nodes
        ]
        return dict(zip(nodes, self.verify(pairs), strict=True))


def _compare(outcomes: dict[str, np.ndarray], owners: np.ndarray) -> dict[str, Any]:
    """Means per task, then intervals over tasks, paired for the differences."""
    per_task = {
        name: np.array([values[owners == task].mean() for task in np.unique(owners)])
        for name, values in outcomes.items()
    }
    result: dict[str, Any] = {n: mean_interval(v) for n, v in per_task.items()}
    for control in ("other_task", "fresh_draw"):
        difference = per_task["true"] - per_task[control]
        result[f"true - {control}"] = mean_interval(difference)
    return {"attempts": len(owners), **result}
