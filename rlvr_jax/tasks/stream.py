"""The order of tasks in a run: a function of (seed, step), so that resume is exact."""

import random
from collections.abc import Sequence

from rlvr_jax.tasks.records import Task
from rlvr_jax.tasks.synthesis import synthesize


class DatasetStream:
    """Epochs over a data set, each in an order of its own.

    Args:
        tasks: the data set, not empty.
        seed: of the order.

    Raises:
        ValueError: there are no tasks.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int) -> None:
        if not tasks:
            raise ValueError("the data set has no task left to train on")
        self._tasks, self._seed = list(tasks), seed
        self._epoch, self._order = -1, []

    def batch(self, step: int, count: int) -> list[Task]:
        """The `count` tasks of a step; a step may reach over the end of an epoch."""
        return [self._at(step * count + offset) for offset in range(count)]

    def _at(self, position: int) -> Task:
        epoch, index = divmod(position, len(self._tasks))
        if epoch != self._epoch:
            # Of `random`, seeding by a string and random() are the same everywhere.
            uniform = random.Random(f"{self._seed}/epoch/{epoch}").random
            keys = [uniform() for _ in self._tasks]
            self._epoch = epoch
            self._order = sorted(range(len(keys)), key=keys.__getitem__)
        return self._tasks[self._order[index]]


class ProgramStream:
    """Generated programs without end.

    Args:
        seed: names the stream.
        levels: shares of the difficulty levels, see `synthesize`.
    """

    def __init__(self, *, seed: int, levels: Sequence[float]) -> None:
        self._seed, self._levels = seed, tuple(levels)

    def batch(self, step: int, count: int) -> list[Task]:
        """The `count` tasks of a step."""
        return synthesize(
            seed=self._seed,
            start=step * count,
            count=count,
            split="train",
            levels=self._levels,
        )
