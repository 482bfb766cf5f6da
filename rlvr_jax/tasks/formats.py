"""Rows of public data sets as `Task` records: one parser per data family.

A parser takes a row (a dict) and a name for it, and raises ValueError with what was
wanted; `readers` adds the file and the line.
"""

import ast
import builtins
import dataclasses
import doctest
import re
from collections.abc import Callable

from rlvr_jax.tasks.records import Task

MATH_INSTRUCTION = (
    "Solve the problem step by step. End with a line of the form #### N, where N is"
    " the final number."
)
CODE_INSTRUCTION = "Answer with one Python code block."

# How many of an MBPP row's asserts the prompt and the feedback may show.
MBPP_VISIBLE = 1


@dataclasses.dataclass(frozen=True)
class Format:
    """How one data family is recognised and read.

    Args:
        columns: columns that every row must have; they also identify the family.
        parse: (row, fallback id) -> Task.
    """

    columns: tuple[str, ...]
    parse: Callable[[dict, str], Task]


def gsm8k_task(row: dict, name: str) -> Task:
    """A grade-school problem; the gold number follows the last "####"."""
    question, solution = _text(row, "question"), _text(row, "answer")
    _, mark, gold = solution.rpartition("####")
    gold = gold.strip()
    if not mark or not re.search(r"\d", gold):
        raise ValueError("column answer: wanted a text that ends with '#### NUMBER'")
    return Task(
        id=name,
        kind="math",
        prompt=f"{question.strip()}\n\n{MATH_INSTRUCTION}",
        answer=gold,
        metadata={"solution": solution},
    )


def mbpp_task(row: dict, name: str) -> Task:
    """A function to write; its name stands only in the asserts, so one is shown.

    The order of execution is solution, setup, tests: some setups use the solution's
    classes.
    """
    text, code = _text(row, "text"), _text(row, "code")
    tests = row["test_list"]
    if (
        not isinstance(tests, list)
        or not tests
        or not all(isinstance(test, str) for test in tests)
    ):
        raise ValueError("column test_list: wanted a non-empty list of assert texts")
    setup = row.get("test_setup_code", "")
    if not isinstance(setup, str):
        raise ValueError("column test_setup_code: wanted a text")
    tests = tuple(test.strip() for test in tests)
    visible = tests[:MBPP_VISIBLE]
    shown = "\n".join(visible)
    return Task(
        id=f"mbpp/{row['task_id']}",
        kind="code",
        prompt=f"{text.strip()}\nYour code must pass this test:\n{shown}\n"
        f"{CODE_INSTRUCTION}",
        answer=_newlines(code),
        tests=tests,
        visible_tests=visible,
        setup=_newlines(setup),
        entry_point=_tested_function(tests, code),
    )


def humaneval_task(row: dict, name: str) -> Task:
    """A function to complete; the check function is the one hidden test.

    The docstring's examples are the visible tests, as far as they are calls of the
    function with an exact value. What stands before the function in the prompt
    (imports, and functions that solutions and checks call) is
    `metadata["preamble"]`, for solutions that do not repeat it.
    """
    header, entry_point = _text(row, "prompt"), _text(row, "entry_point")
    test = _text(row, "test")
    if not re.search(r"^def check\(", test, re.MULTILINE):
        raise ValueError(
            "column test: wanted source text that defines check(candidate)"
        )
    start = re.search(rf"^def {re.escape(entry_point)}\(", header, re.MULTILINE)
    if start is None:
        raise ValueError(
            f"column prompt: wanted source text with 'def {entry_point}(', the entry"
            " point"
        )
    solution = row.get("canonical_solution", "")
    visible = _documented_asserts(header, entry_point)
    return Task(
        id=str(row.get("task_id", name)),
        kind="code",
        prompt=f"Complete this function:\n```python\n{header.rstrip()}\n```\n"
        f"{CODE_INSTRUCTION} It must hold the whole function.",
        answer=header + solution if isinstance(solution, str) and solution else "",
        tests=(*visible, test),
        visible_tests=visible,
        entry_point=entry_point,
        metadata={"preamble": header[: start.start()].strip()},
    )


def own_task(row: dict, name: str) -> Task:
    """A `Task` written as JSON: columns are the fields, pairs are lists of two."""
    fields = {field.name: field for field in dataclasses.fields(Task)}
    unknown = sorted(set(row) - set(fields))
    if unknown:
        raise ValueError(f"unknown columns {unknown}; wanted some of {list(fields)}")
    for column in ("id", "kind"):
        _text(row, column)
    for column in ("answer", "setup", "entry_point"):
        _any_text({column: "", **row}, column)
    if not _is_prompt(row["prompt"]):
        raise ValueError(
            "column prompt: wanted a text or a list of messages"
            ' {"role": text, "content": text}'
        )
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


# Checked in this order when a format is to be found from the columns.
FORMATS = {
    "task": Format(("id", "kind", "prompt"), own_task),
    "humaneval": Format(("prompt", "entry_point", "test"), humaneval_task),
    "mbpp": Format(("text", "code", "test_list", "task_id"), mbpp_task),
    "gsm8k": Format(("question", "answer"), gsm8k_task),
}


def _text(row: dict, column: str) -> str:
    """Returns a column that must hold a text with something in it."""
    text = _any_text(row, column)
    if not text.strip():
        raise ValueError(f"column {column}: wanted a text that is not empty")
    return text


def _any_text(row: dict, column: str) -> str:
    if not isinstance(row[column], str):
        raise ValueError(f"column {column}: wanted a text, got {row[column]!r:.80}")
    return row[column]


def _newlines(source: str) -> str:
    return source.replace("\r\n", "\n")


def _is_prompt(prompt: object) -> bool:
    if isinstance(prompt, list):
        return bool(prompt) and all(
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
            for message in prompt
        )
    return isinstance(prompt, str)


def _pairs(tests: list) -> tuple:
    """Returns tests as Task holds them: JSON has no tuples, so a list is a pair."""
    return tuple(tuple(test) if isinstance(test, list) else test for test in tests)


def _documented_asserts(source: str, entry_point: str) -> tuple[str, ...]:
    """Returns the docstring examples of a function as asserts, floats left out."""
    asserts = []
    try:
        examples = doctest.DocTestParser().get_examples(source)
    except ValueError:  # badly indented examples: show none of them
        return ()
    for example in examples:
        call, value = example.source.strip(), example.want.strip()
        try:
            expected = ast.literal_eval(value)
            ast.parse(call, mode="eval")
        except (ValueError, SyntaxError):
            continue
        # The check compares floats with a tolerance that an example cannot say.
        if call.startswith(f"{entry_point}(") and not isinstance(expected, float):
            asserts.append(f"assert {call} == {value}")
    return tuple(asserts)


def _tested_function(tests: tuple[str, ...], code: str) -> str:
    """Returns the function that the first assert calls and the solution defines."""
    try:
        called = [
            node.func.id
            for node in ast.walk(ast.parse(tests[0]))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
    except SyntaxError as error:
        raise ValueError(f"column test_list: not Python: {tests[0]!r:.80}") from error
    defined = re.findall(r"^(?:def|class)\s+(\w+)", code, re.MULTILINE)
    for name in called:
        if name in defined:
            return name
    for name in called:
        if not hasattr(builtins, name):
            return name
    raise ValueError(f"column test_list: {tests[0]!r:.80} calls no function to write")
