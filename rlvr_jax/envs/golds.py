"""Gold answers graded against themselves, before a run trusts them."""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence

from rlvr_jax.envs.math import MathVerifier
from rlvr_jax.tasks.records import Task


@dataclasses.dataclass(frozen=True)
class GoldReport:
    """Which gold answers do not equal themselves.

    Args:
        total: tasks looked at.
        failed: ids of tasks whose answer cannot be read, or not in time: only a
            response with the same text can be right.
    """

    total: int
    failed: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of gold answers that fail, in [0, 1]."""
        return len(self.failed) / self.total if self.total else 0.0

    def __str__(self) -> str:
        shown = ", ".join(self.failed[:5]) + (", .." if len(self.failed) > 5 else "")
        return (
            f"{len(self.failed)} of {self.total} gold answers"
            f" ({100 * self.share:.2f} %) cannot be read, so that only the same text"
            f" is right{': ' if shown else ''}{shown}"
        )


def self_check(
    verifier: MathVerifier,
    tasks: Sequence[Task],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> GoldReport:
    """Grades each gold answer against itself, by its meaning and not by its text.

    Args:
        verifier: of mathematics.
        tasks: of kind "math"; equal answers are looked at once.
        progress: called after each answer with (answers done, answers in all).

    Returns:
        The report; a few milliseconds for each answer that is not a number.
    """
    answers = list({task.answer: task for task in tasks}.values())
    with concurrent.futures.ThreadPoolExecutor(verifier.workers) as threads:
        known = []
        for fine in threads.map(verifier.understands, answers):
            known.append(fine)
            if progress is not None:
                progress(len(known), len(answers))
    good = {task.answer for task, fine in zip(answers, known, strict=True) if fine}
    failed = tuple(task.id for task in tasks if task.answer not in good)
    return GoldReport(len(tasks), failed)
