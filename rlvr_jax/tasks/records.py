"""The record of one task: what the policy is asked and what the verifier checks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
    """One task of a data set; equal records are equal tasks.

    Args:
        id: name of the task, unique in its data set; rollout files refer to it.
        kind: "math" (a gold answer), "code" (unit tests) or "programs" (pairs).
        prompt: the user's message, or a list of `{"role": ..., "content": ...}`
            messages that ends with a user's one.
        answer: gold answer of a math task; a reference solution of the others,
            "" if there is none. Never shown to the policy.
        tests: all tests, the visible ones included and first: assert statements, a
            check function as source text, or (input, expected) pairs.
        visible_tests: the tests that feedback may show.
        setup: source text run after the solution and before the tests.
        entry_point: name of the function that the solution must define.
        metadata: whatever else came with the task.
    """

    id: str
    kind: str
    prompt: str | list[dict]
    answer: str = ""
    tests: tuple = ()
    visible_tests: tuple = ()
    setup: str = ""
    entry_point: str = ""
    metadata: dict = dataclasses.field(default_factory=dict)
