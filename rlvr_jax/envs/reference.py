"""A verifier tried on the references, to find tasks that nobody can solve."""

from collections.abc import Sequence

from rlvr_jax.envs.math import gold_answer
from rlvr_jax.envs.verdict import Verdict
from rlvr_jax.envs.verifier import Verifier
from rlvr_jax.tasks.records import Task


def self_test(
    verifier: Verifier, tasks: Sequence[Task]
) -> tuple[list[Task], dict[str, Verdict]]:
    r"""Grades every task's reference and keeps the tasks whose reference is right.

    The response graded is the reference solution in a code block, or the gold answer in
    \boxed{}. A task without a reference is kept unless the verifier abstains on it: it
    then has nothing to grade with.

    Args:
        verifier: of the tasks' kind.
        tasks: ids are unique.

    Returns:
        The tasks kept, in their order; and the verdicts of the others by id, whose
        status and feedback say what went wrong. One that the host failed to grade
        (infrastructure) is among the others: nothing is known about it.
    """
    verdicts = verifier.verify([(task, reference(task)) for task in tasks])
    kept, failed = [], {}
    for task, verdict in zip(tasks, verdicts, strict=True):
        if verdict.solved or not (task.answer or verdict.reward is None):
            kept.append(task)
        else:
            failed[task.id] = verdict
    return kept, failed


def reference(task: Task) -> str:
    r"""The response that a task's own answer makes; "" without one.

    >>> reference(Task("1", "math", "2+2?", answer="So it is\n#### 4"))
    '\\boxed{4}'
    """
    if not task.answer:
        return ""
    if task.kind == "math":
        return f"\\boxed{{{gold_answer(task.answer).strip()}}}"
    if task.kind == "arithmetic":
        return task.answer
    return f"```python\n{task.answer}\n```"
