"""What a task's tests are, and the sentences that all kinds of tests share."""

from rlvr_jax.tasks.records import Task

HIDDEN_FEEDBACK = "The visible tests pass, but a hidden test fails."
NO_CODE_FEEDBACK = "No code was found in your answer."
PASSED_FEEDBACK = "All tests pass."
# Why a child was killed -> status and sentence.
STOPPED = {
    "cpu": ("timeout", "Your code did not finish in time."),
    "wall": ("timeout", "Your code did not finish in time."),
    "output": ("output_limit", "Your code wrote too much output."),
}


def all_tests(task: Task) -> list:
    """The tests of a task, the visible ones first, none of them twice."""
    visible = list(task.visible_tests)
    return visible + [test for test in task.tests if test not in visible]


def framework(task: Task) -> str:
    """ "pytest", "unittest", "streams" (pairs of texts) or "" (asserts).

    Raises:
        ValueError: the tests are of no kind, or of two.
    """
    tests = all_tests(task)
    named = task.metadata.get("test_framework") or ""
    texts = [isinstance(test, str) for test in tests]
    if all(texts) and named in ("", "pytest", "unittest"):
        return named
    pairs = [
        isinstance(test, (tuple, list))
        and len(test) == 2
        and all(isinstance(part, str) for part in test)
        for test in tests
    ]
    if all(pairs) and not named:
        return "streams"
    raise ValueError(
        "Tests must all be source texts (test_framework absent, pytest or unittest) or"
        f" all pairs of texts; test_framework is {named!r}."
    )
