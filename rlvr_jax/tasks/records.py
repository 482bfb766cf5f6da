"""The record of one task: what the policy is asked and what the verifier checks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
    """One task of a data set; equal records are equal tasks.

    Args:
        id: name of the task, unique in its data set; rollout files refer to it.
        kind: "math" (a gold answer), "code" (unit tests), "programs" (pairs) or
            "arithmetic" (a bare number).
        prompt: the user's message, or a list of `{"role": ..., "content": ...}`
            messages that ends with a user's one.
        answer: gold answer of a math or arithmetic task; a reference solution of the
            others, "" if there is none. Never shown to the policy.
        tests: all tests, the visible ones included and first. Of "programs":
            (argument, expected) pairs. Of "code": source texts, which are assert
            statements, a check function or a test module; or pairs of texts (standard
            input, standard output) for a whole program.
        visible_tests: the tests that feedback may show.
        setup: source text run after the solution and before the tests.
        entry_point: name of the function that the solution must define; "Class.name"
            is a method, which the tests call by `name` alone, each time on a fresh
            instance made without arguments; "" for a whole program.
        metadata: whatever else came with the task. `test_framework`: "pytest" (the one
            test is a module that imports from `solution`) or "unittest" (it is a source
            to run after the solution); `preamble`: source to run before the solution;
            `files`: texts by their paths in the working folder of solution and tests;
            `choices`: texts of a multiple choice, `answer` being the letter;
            `difficulty`: share of attempts that solved the task, higher is easier.
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
