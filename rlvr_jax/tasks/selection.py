"""Which tasks of a data set are kept: by difficulty, and each prompt once."""

import json
from collections.abc import Sequence

from rlvr_jax.tasks.formats.columns import solved_share
from rlvr_jax.tasks.records import Task


def within_difficulty(
    tasks: Sequence[Task], low: float, high: float
) -> tuple[list[Task], int]:
    """Tasks whose difficulty is in [low, high]; both bounds are kept.

    Args:
        tasks: `metadata["difficulty"]` of each is the share of attempts that solved it,
            a number in [0, 1] or a fraction such as "3/8": higher is easier.
        low, high: bounds, 0 <= low <= high <= 1.

    Returns:
        The tasks kept, in their order, and how many were left out.

    Raises:
        ValueError: a task has no such difficulty.
    """
    kept = [task for task in tasks if low <= _difficulty(task) <= high]
    return kept, len(tasks) - len(kept)


def _difficulty(task: Task) -> float:
    try:
        return solved_share(task.metadata.get("difficulty"))
    except ValueError as error:
        raise ValueError(
            f"task {task.id}: metadata: {error}; without it, set no bounds"
        ) from error


def without_duplicates(tasks: Sequence[Task]) -> tuple[list[Task], int]:
    """The first of all tasks whose prompts differ in white space alone.

    Tests and answers are not compared: of two equal prompts with different answers the
    second goes too.

    Returns:
        The tasks kept, in their order, and how many were left out.
    """
    first: dict[str, Task] = {}
    for task in tasks:
        first.setdefault(_normalised(task.prompt), task)
    return list(first.values()), len(tasks) - len(first)


def _normalised(prompt: str | list[dict]) -> str:
    """A key that equal prompts share; messages never equal a plain text."""
    if isinstance(prompt, str):
        return " ".join(prompt.split())
    return json.dumps(
        [(turn["role"], " ".join(turn["content"].split())) for turn in prompt]
    )
