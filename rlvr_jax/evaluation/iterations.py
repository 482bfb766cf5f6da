"""Evaluation of self-correction: chains of attempts on held-out tasks."""

import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from rlvr_jax import distributed, sampling
from rlvr_jax.config import Config
from rlvr_jax.evaluation.estimates import mean_interval, pass_at_k
from rlvr_jax.rollout import Limits, Rollout, Verify, rollout
from rlvr_jax.tasks import Task, Tokenizer
from rlvr_jax.tree import TreeLayout


def evaluate(
    sampler: sampling.Sampler,
    params: dict[str, Any],
    tasks: Sequence[Task],
    *,
    config: Config,
    tokenizer: Tokenizer,
    verify: Verify,
    progress: Any = None,
) -> dict[str, Any]:
    """pass@k and Iter-1 .. Iter-turns (or Ver@K) of a policy.

    Each task gets `eval.samples` chains of up to `eval.turns` attempts. The answer of a
    chain within k iterations is its last attempt up to the k-th; a chain ends when its
    visible tests pass (Iter-k) or when it is solved (Ver@K). All tests score it.

    Several processes share the tasks, and all have the result.

    Args:
        sampler: of the policy.
        params: plain parameters.
        tasks: held-out tasks, evaluated `config.eval_batch` at a time.
        config: sections `eval` and `rollout`.
        tokenizer: of the policy.
        verify: grades a batch.
        progress: called with the number of tasks done after each batch.

    Returns:
        `{"metrics": {name: {mean, low, high}}, "tasks": [one row per task]}`; intervals
        are over tasks, at 95 %.
    """
    section, batch = config.eval, config.eval_batch
    limits = Limits(
        layout=TreeLayout((section.samples, *(1,) * (section.turns - 1))),
        prompt_tokens=config.tasks.max_prompt_tokens,
        response_tokens=config.rollout.max_response_tokens,
        feedback_tokens=config.rollout.max_feedback_tokens,
        budget=config.rollout.budget,
        expand=section.expand,
        feedback=config.rollout.feedback,
    )
    # Per batch, the rows of this process's part of it.
    parts: list[list[dict[str, Any]]] = []
    for start in range(0, len(tasks), batch):
        here = tasks[start : start + batch]
        own = distributed.share(len(here))
        grown = rollout(
            sampler,
            params,
            here[own.start : own.stop],
            tokenizer=tokenizer,
            verify=verify,
            limits=limits,
            key=jax.random.key(section.seed),
            first_prompt=start + own.start,
            temperature=section.temperature,
            top_p=section.top_p,
            top_k=section.top_k,
        )
        parts.append(_rows(grown))
        if progress is not None:
            progress(start + len(here))
    found = distributed.all_texts(
        "evaluation", json.dumps(parts), wait_seconds=config.mesh.wait_seconds
    )
    batches = zip(*map(json.loads, found), strict=True)
    rows = [row for batch in batches for part in batch for row in part]
    return {"metrics": _metrics(rows, config), "tasks": rows}


def _rows(grown: Rollout) -> list[dict[str, Any]]:
    """Per task: how many chains are solved within k iterations, for every k.

    A chain with an attempt that could not be graded says nothing: it is left out.
    """
    tree = grown.tree
    chains, turns = tree.layout.branching[0], tree.layout.num_turns
    # Slots are in level order and every branching but the first is 1.
    shape = (tree.num_prompts, turns, chains)
    solved, there = tree.solved.reshape(shape), tree.context_mask.reshape(shape)
    rows = []
    for prompt, task in enumerate(grown.tasks):
        verdicts = grown.verdicts[prompt]
        lost = {slot % chains for slot, row in verdicts.items() if row.reward is None}
        kept = [chain for chain in range(chains) if chain not in lost]
        answers = [solved[prompt, 0]]
        for turn in range(1, turns):
            here = there[prompt, turn]
            answers.append(np.where(here, solved[prompt, turn], answers[-1]))
        rows.append(
            {
                "id": task.id,
                "correct": [int(answer[kept].sum()) for answer in answers],
                "samples": len(kept),
                "lost": len(lost),
                "no_answer": sum(verdicts[slot].status == "no_answer" for slot in kept),
            }
        )
    return rows


def _metrics(rows: list[dict[str, Any]], config: Config) -> dict[str, Any]:
    section = config.eval
    name = "ver" if section.expand == "unsolved" else "iter"
    graded = [row for row in rows if row["samples"]]
    if not graded:
        raise ValueError("no task of the evaluation could be graded: see host.json")
    metrics = {}
    for k in section.pass_at:
        # Lost chains may leave too few; a k above `eval.samples` is refused.
        enough = [row for row in graded if row["samples"] >= k or not row["lost"]]
        if enough:
            metrics[f"eval/pass_at_{k}"] = mean_interval(
                [pass_at_k(row["samples"], row["correct"][0], k) for row in enough]
            )
    for turn in range(section.turns):
        shares = [row["correct"][turn] / row["samples"] for row in graded]
        metrics[f"eval/{name}_{turn + 1}"] = mean_interval(shares)
    without = [row["no_answer"] / row["samples"] for row in graded]
    metrics["eval/no_answer"] = mean_interval(without)
    lost = [row["lost"] / (row["lost"] + row["samples"]) for row in rows]
    metrics["eval/lost"] = mean_interval(lost)
    return metrics
