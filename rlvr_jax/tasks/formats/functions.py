"""Rows that ask for a Python function: asserts, a check function, test modules."""

import ast
import builtins
import doctest
import re

from rlvr_jax.tasks.formats import columns
from rlvr_jax.tasks.records import Task

CODE_INSTRUCTION = "Answer with one Python code block."

# How many of an MBPP row's asserts the prompt and the feedback may show.
MBPP_VISIBLE = 1


def mbpp_task(row: dict, name: str) -> Task:
    """A function to write; its name stands only in the asserts, so one is shown.

    The order of execution is solution, setup, tests: some setups use the solution's
    classes.
    """
    text, code = columns.first_text(row, "text", "prompt"), columns.text(row, "code")
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
    imports = row.get("test_imports", [])  # in the sanitized edition
    if not isinstance(imports, list) or not all(isinstance(i, str) for i in imports):
        raise ValueError("column test_imports: wanted a list of texts")
    setup = "\n".join([*imports, setup] if setup else imports)
    tests = tuple(test.strip() for test in tests)
    visible = tests[:MBPP_VISIBLE]
    shown = "\n".join(visible)
    used = (
        *("task_id", "text", "prompt", "code"),
        *("test_list", "test_setup_code", "test_imports"),
    )
    return Task(
        id=f"mbpp/{row['task_id']}",
        kind="code",
        prompt=f"{text.strip()}\nYour code must pass this test:\n{shown}\n"
        f"{CODE_INSTRUCTION}",
        answer=columns.newlines(code),
        tests=tests,
        visible_tests=visible,
        setup=columns.newlines(setup),
        entry_point=tested_function(tests, code),
        metadata=columns.others(row, used),
    )


def humaneval_task(row: dict, name: str) -> Task:
    """A function to complete; the check function is the one hidden test.

    The docstring's examples are the visible tests, as far as they are calls of the
    function with an exact value. What stands before the function in the prompt
    (imports, and functions that solutions and checks call) is
    `metadata["preamble"]`, for solutions that do not repeat it.
    """
    header, entry_point = columns.text(row, "prompt"), columns.text(row, "entry_point")
    test = columns.text(row, "test")
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
    used = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
    return Task(
        id=str(row.get("task_id", name)),
        kind="code",
        prompt=f"Complete this function:\n```python\n{header.rstrip()}\n```\n"
        f"{CODE_INSTRUCTION} It must hold the whole function.",
        answer=header + solution if isinstance(solution, str) and solution else "",
        tests=(*visible, test),
        visible_tests=visible,
        entry_point=entry_point,
        metadata={
            **columns.others(row, used),
            "preamble": header[: start.start()].strip(),
        },
    )


def bigcodebench_task(row: dict, name: str) -> Task:
    """A function that uses libraries; its test is a unittest source.

    `metadata["test_framework"]` is "unittest": it runs after the solution, in the
    solution's namespace.
    """
    entry_point, test = columns.text(row, "entry_point"), columns.text(row, "test")
    if "TestCase" not in test:
        raise ValueError("column test: wanted source text with a unittest.TestCase")
    header = columns.text(row, "code_prompt")
    solution = columns.optional_text(row, "canonical_solution")
    used = (
        *("task_id", "entry_point", "test", "code_prompt", "canonical_solution"),
        *("instruct_prompt", "complete_prompt"),
    )
    return Task(
        id=str(row.get("task_id", name)),
        kind="code",
        prompt=columns.text(row, "instruct_prompt").strip(),
        answer=header + solution if solution else "",
        tests=(test,),
        entry_point=entry_point,
        metadata={**columns.others(row, used), "test_framework": "unittest"},
    )


def kodcode_task(row: dict, name: str) -> Task:
    """A function to write; its test is a pytest module that imports from `solution`.

    `metadata["test_framework"]` is "pytest"; the prompt shows the declarations that the
    tests rely on; `metadata["difficulty"]` is the share of attempts that solved it.
    """
    question, test = columns.text(row, "question"), columns.text(row, "test")
    if not re.search(r"^\s*(?:async )?def test", test, re.MULTILINE):
        raise ValueError("column test: wanted a pytest module with a function test_...")
    info = row["test_info"]
    if not isinstance(info, list) or not all(isinstance(item, dict) for item in info):
        raise ValueError("column test_info: wanted a list of objects")
    shown = [
        columns.text({"function_declaration": "", **i}, "function_declaration")
        for i in info
    ]
    declared = re.search(
        r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)", shown[0] if shown else "", re.M
    )
    if not declared:
        raise ValueError(
            "column test_info: wanted a first function_declaration such as 'def f(x):'"
        )
    declarations = "\n".join(declaration.strip() for declaration in shown)
    used = ("question", "solution", "test", "test_info", "question_id")
    metadata = {**columns.others(row, used), "test_framework": "pytest"}
    if row.get("gpt_pass_percentage") is not None:
        metadata["difficulty"] = columns.solved_share(row["gpt_pass_percentage"])
    return Task(
        id=str(row.get("question_id") or name),
        kind="code",
        prompt=f"{question.strip()}\n\nYour code must define:\n```python\n"
        f"{declarations}\n```\n{CODE_INSTRUCTION}",
        answer=columns.newlines(columns.optional_text(row, "solution")),
        tests=(columns.newlines(test),),
        entry_point=declared.group(1),
        metadata=metadata,
    )


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


def tested_function(tests: tuple[str, ...], code: str) -> str:
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
