"""Rows of other trainers, and our own record as a row."""

import dataclasses
import json

from rlvr_jax.tasks.formats import columns, contests, functions
from rlvr_jax.tasks.records import Task

# In this order: the first one with something in it is the gold.
GOLD_COLUMNS = ("answer", "solution", "ground_truth", "label")


def own_task(row: dict, name: str) -> Task:
    """A `Task` written as JSON: columns are the fields, pairs are lists of two."""
    fields = {field.name: field for field in dataclasses.fields(Task)}
    unknown = sorted(set(row) - set(fields))
    if unknown:
        raise ValueError(f"unknown columns {unknown}; wanted some of {list(fields)}")
    for column in ("id", "kind"):
        columns.text(row, column)
    for column in ("answer", "setup", "entry_point"):
        columns.any_text({column: "", **row}, column)
    columns.prompt(row)
    for column in ("tests", "visible_tests"):
        if not isinstance(row.get(column, []), list):
            raise ValueError(f"column {column}: wanted a list")
    if not isinstance(row.get("metadata", {}), dict):
        raise ValueError("column metadata: wanted an object")
    return Task(
        **{
            **row,
            "tests": _pairs(row.get("tests", [])),
            "visible_tests": _pairs(row.get("visible_tests", [])),
        }
    )


def verl_task(row: dict, name: str) -> Task:
    """A row of verl: its gold is reward_model.ground_truth.

    A ground truth with inputs and outputs is a code task's tests; any other is a gold
    answer. All columns but the prompt are metadata, and so is `ground_truth`: verl's
    `compute_score` takes them.
    """
    columns.text(row, "data_source")
    model = row["reward_model"]
    if not isinstance(model, dict) or model.get("ground_truth") is None:
        raise ValueError("column reward_model: wanted an object with ground_truth")
    gold = model["ground_truth"]
    metadata = {**columns.others(row, ("prompt",)), "ground_truth": gold}
    cases = _cases(gold)
    if cases is None:
        answer = _gold({"reward_model.ground_truth": gold}, "reward_model.ground_truth")
        return _answer_task(row, name, answer, metadata)
    tests, function = contests.input_output_tests(cases, "reward_model.ground_truth")
    return Task(
        id=name,
        kind="code",
        prompt=columns.prompt(row),
        tests=tests,
        entry_point=function or "",
        metadata=metadata,
    )


def trl_task(row: dict, name: str) -> Task:
    """A row of TRL: a prompt, a gold under one of `GOLD_COLUMNS`, perhaps tests.

    With tests it is a code task: assert texts, pairs (standard input, standard output)
    or an object with inputs and outputs, as such or as JSON text; the gold is then the
    reference solution. All columns but the prompt are metadata: reward functions take
    them as keywords.
    """
    gold = next((c for c in GOLD_COLUMNS if row.get(c) not in (None, "")), None)
    metadata = columns.others(row, ("prompt",))
    if not row.get("tests"):
        answer = _gold(row, gold) if gold else ""
        return _answer_task(row, name, answer, metadata)
    answer = columns.newlines(columns.text(row, gold)) if gold else ""
    tests, function = _trl_tests(columns.decoded(row, "tests"))
    if not function and isinstance(tests[0], str):
        function = _tested(tests, answer)
    return Task(
        id=name,
        kind="code",
        prompt=columns.prompt(row),
        answer=answer,
        tests=tests,
        entry_point=columns.optional_text(row, "entry_point") or function or "",
        metadata=metadata,
    )


def _answer_task(row: dict, name: str, answer: str, metadata: dict) -> Task:
    return Task(
        id=name,
        kind="math",
        prompt=columns.prompt(row),
        answer=answer,
        metadata=metadata,
    )


def _gold(row: dict, column: str) -> str:
    """A gold as a text; of a list, verl and others mean that any of it is right."""
    value = row[column]
    if isinstance(value, list) and len(value) == 1:
        return columns.scalar_text({column: value[0]}, column)
    if isinstance(value, list | dict | bool):
        return json.dumps(value)
    return columns.scalar_text(row, column)


def _cases(gold: object) -> dict | None:
    """The tests in a ground truth, an object or its JSON text; None if it is none."""
    if isinstance(gold, str) and gold.lstrip().startswith("{"):
        try:
            gold = json.loads(gold)
        except ValueError:
            return None
    return gold if isinstance(gold, dict) and "inputs" in gold else None


def _trl_tests(tests: object) -> tuple[tuple, str | None]:
    if isinstance(tests, dict):
        asserts, function = contests.input_output_tests(tests, "tests")
        if asserts:
            return asserts, function
    if not isinstance(tests, list) or not tests:
        raise ValueError(
            "column tests: wanted a list of asserts or of pairs, or an object with"
            f" inputs and outputs, got {tests!r:.80}"
        )
    if all(isinstance(test, str) for test in tests):
        return tuple(test.strip() for test in tests), None
    if all(isinstance(test, dict) for test in tests):
        tests = [[test.get("input"), test.get("output")] for test in tests]
    if not all(
        isinstance(test, list)
        and len(test) == 2
        and all(isinstance(part, str) for part in test)
        for test in tests
    ):
        raise ValueError(
            "column tests: wanted asserts, or pairs of texts (standard input, standard"
            f" output), got {tests!r:.80}"
        )
    return _pairs(tests), None


def _tested(tests: tuple, answer: str) -> str:
    """The function that the tests call, "" if they do not tell."""
    try:
        return functions.tested_function(tests, answer)
    except ValueError:
        return ""


def _pairs(tests: list) -> tuple:
    """Returns tests as Task holds them: JSON has no tuples, so a list is a pair."""
    return tuple(tuple(test) if isinstance(test, list) else test for test in tests)
