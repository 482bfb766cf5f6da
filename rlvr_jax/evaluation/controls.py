"""Is feedback used? Retries with the true feedback against two controls.

A retry may succeed because it is another draw, or because a second turn differs from a
first one. The controls take these apart: a fresh draw from the prompt, and a retry that
is shown another task's feedback.
"""

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
    """
    section = config.eval
    key = jax.random.key(section.seed)
    shared = {
        "max_new_tokens": config.rollout.max_response_tokens,
        "stop_ids": tokenizer.stop_ids,
        "temperature": section.temperature,
        "top_p": section.top_p,
        "top_k": section.top_k,
    }
    prompts = [tokenizer.prompt_ids(task.prompt) for task in tasks]

    def grade(samples: sampling.Samples, owners: Sequence[int]) -> dict[Node, Verdict]:
        nodes = [
            (m, g) for m in range(len(owners)) for g in range(samples.tokens.shape[1])
        ]
        texts = [
            tokenizer.decode(samples.tokens[m, g, : samples.lengths[m, g]])
            for m, g in nodes
        ]
        pairs = [
            (tasks[owners[m]], text) for (m, _), text in zip(nodes, texts, strict=True)
        ]
        return dict(zip(nodes, verify(pairs), strict=True))

    def draw(key: jax.Array) -> tuple[sampling.Samples, dict[Node, Verdict]]:
        samples = sampler.generate(
            params,
            prompts,
            context_ids=range(len(tasks)),
            num_samples=section.samples,
            key=key,
            **shared,
        )
        return samples, grade(samples, range(len(tasks)))

    first, verdicts = draw(jax.random.fold_in(key, 1))
    failed = [
        node
        for node, verdict in verdicts.items()
        if verdict.reward is not None and not verdict.visible_passed
    ]
    owners = [m for m, _ in failed]

    def retry(messages: Sequence[str]) -> np.ndarray:
        samples = sampler.extend(
            params,
            first,
            select=failed,
            appendix=[
                tokenizer.appendix_ids(message, closed=not first.truncated[node])
                for node, message in zip(failed, messages, strict=True)
            ],
            context_ids=range(len(failed)),
            num_samples=1,
            key=jax.random.fold_in(key, 2),
            **shared,
        )
        graded = grade(samples, owners)
        return np.array([graded[i, 0].solved for i in range(len(failed))], float)

    true = [verdicts[node].feedback for node in failed]
    # Half a turn around the list of tasks: always another task's message.
    strangers = np.roll(np.arange(len(failed)), len(failed) // 2)
    _, fresh = draw(jax.random.fold_in(key, 3))
    outcomes = {
        "true": retry(true),
        "other_task": retry([true[i] for i in strangers]),
        "fresh_draw": np.array([fresh[node].solved for node in failed], float),
    }
    return _compare(outcomes, np.array(owners))


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
