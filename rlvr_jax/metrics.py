"""Metrics: names `group/name`, sums that combine exactly, and the file they go to."""

import collections
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from rlvr_jax.tree import NO_PARENT, RolloutTree


class MetricsFile:
    """Appends one JSON object per step to a file.

    Args:
        path: the file; it is continued if it is there.
        last_step: rows of later steps are dropped first: a resumed run repeats them.

    Raises:
        ValueError: a line before the last one is not JSON.
    """

    def __init__(self, path: pathlib.Path, *, last_step: int = -1) -> None:
        self._path = path
        if path.exists():
            kept = [row for row in _rows(path) if row["step"] <= last_step]
            # Complete or not there: a run may be killed at any moment.
            partial = path.with_name(f"{path.name}.partial")
            partial.write_text("".join(json.dumps(row) + "\n" for row in kept))
            os.replace(partial, path)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of one step; every name once."""
        row = {"step": step, **{name: float(values[name]) for name in sorted(values)}}
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


class CompileCounter:
    """Counts the programs that JAX compiles in this process from now on.

    After the first step of a run the count must stand still: a change of lengths,
    temperature or outcome compiles nothing.
    """

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: object) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


def _rows(path: pathlib.Path) -> list[dict[str, float]]:
    """The rows of a file; a last line that was cut off is left out."""
    *lines, _ = path.read_text().split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: not a row of metrics ({error}): repair the"
                " line or move the file away"
            ) from error
    return rows


def check_finite(values: Mapping[str, float], step: int) -> None:
    """Raises FloatingPointError that names every value that is NaN or infinite."""
    bad = [name for name, value in values.items() if not np.isfinite(value)]
    if bad:
        raise FloatingPointError(
            f"step {step}: {', '.join(sorted(bad))} not finite; the last checkpoint is"
            " from before this step: lower optimizer.learning_rate or look at the"
            " rollouts of this step"
        )


def mean(values: Any, mask: Any) -> float:
    """Mean of `values` where `mask` is True; 0 where nothing is."""
    count = np.sum(mask)
    return float(np.sum(np.where(mask, values, 0.0)) / max(count, 1))


def tree_metrics(
    tree: RolloutTree, entropies: np.ndarray, repeats: np.ndarray | None = None
) -> dict[str, float]:
    """What a rollout says about the policy.

    Args:
        tree: sampled and graded.
        entropies: float [B, N], sum over the response's tokens, in nats.
        repeats: of `repeated(tree)`, for a tree whose tokens are elsewhere.

    Returns:
        reward/mean and reward/std over the graded nodes; solved/turn_k, the share of
        the graded nodes of turn k; solved/tree, the share of prompts with a solved
        node; retry/repeat_rate, the share of retries that repeat their parent;
        response/length and response/truncated over all responses; policy/entropy per
        sampled token; tokens/sampled; groups/lost, nodes without a verdict.
    """
    mask, sampled = tree.node_mask, tree.context_mask
    num_tokens = int(tree.response_lengths[sampled].sum())
    center = mean(tree.rewards, mask)
    values = {
        "reward/mean": center,
        "reward/std": mean((tree.rewards - center) ** 2, mask) ** 0.5,
        "solved/tree": float((tree.solved & mask).any(axis=1).mean()),
        "response/length": mean(tree.response_lengths, sampled),
        "response/truncated": mean(tree.truncated, sampled),
        "policy/entropy": float(entropies[sampled].sum() / max(num_tokens, 1)),
        "tokens/sampled": num_tokens,
        "groups/lost": int((sampled & ~mask).sum()),
    }
    for turn in range(tree.layout.num_turns):
        here = tree.layout.turn_slice(turn)
        if mask[:, here].any():
            share = mean(tree.solved[:, here], mask[:, here])
            values[f"solved/turn_{turn + 1}"] = share
    parents = tree.layout.parents
    retries = sampled & (parents != NO_PARENT)[None]
    if retries.any():
        same = repeated(tree) if repeats is None else repeats
        values["retry/repeat_rate"] = mean(same, retries)
    return values


def status_metrics(statuses: Iterable[str], names: Sequence[str]) -> dict[str, float]:
    """How many responses of a step the verifier gave each status, as verify/NAME.

    Args:
        statuses: one per response. Those of infrastructure failures and abstentions
            are the nodes that are left out, never rewards of 0.
        names: statuses there are; those that nobody got are 0.
    """
    counts = collections.Counter(statuses)
    return {f"verify/{name}": counts[name] for name in names}


def repeated(tree: RolloutTree) -> np.ndarray:
    """bool [B, N]: the response is its parent's, token for token."""
    above = np.maximum(tree.layout.parents, 0)
    tokens, lengths = tree.response_tokens, tree.response_lengths
    padding = np.arange(tokens.shape[-1]) >= lengths[..., None]
    same = (tokens == tokens[:, above]) | padding
    return same.all(axis=-1) & (lengths == lengths[:, above])
