"""Rows of programming contests: programs that read and write, and methods.

A test of a program is a pair (standard input, standard output). A test of a function
is an assert that calls it by its name; the entry point of a method is dotted, such as
"Solution.two_sum", and its asserts call `two_sum` of a fresh instance.
"""

import base64
import binascii
import pickletools
import re
import zlib

from rlvr_jax.tasks.formats import columns
from rlvr_jax.tasks.records import Task

PROGRAM_INSTRUCTION = (
    "Write a Python program that reads standard input and writes standard output."
    " Answer with one Python code block."
)
FUNCTION_INSTRUCTION = "Answer with one Python code block."

# No private test file of LiveCodeBench is near it; a bomb is over it.
MAX_BYTES = 1 << 30
_TEXT_CODES = ("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_PLAIN_CODES = ("PROTO", "FRAME", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "STOP")


def livecodebench_task(row: dict, name: str) -> Task:
    """A contest problem; its public tests are the visible ones.

    Private tests are JSON, or base64 of zlib of a pickled JSON text, of which only the
    text is read: nothing is unpickled. There is no reference solution.
    """
    details = columns.decoded({"metadata": {}, **row}, "metadata") or {}
    if not isinstance(details, dict):
        raise ValueError("column metadata: wanted a JSON object")
    starter = columns.optional_text(row, "starter_code")
    function = details.get("func_name")
    if function is not None and not isinstance(function, str):
        raise ValueError("column metadata: wanted func_name to be a text")
    public = _cases(columns.decoded(row, "public_test_cases"), "public_test_cases")
    private = _cases(_private(row["private_test_cases"]), "private_test_cases")
    cases = [*public, *private]
    if not cases:
        raise ValueError("column public_test_cases: wanted a test here or in private")
    functional = {case["testtype"] == "functional" for case in cases}
    if len(functional) > 1 or (functional == {True} and not function):
        raise ValueError(
            "column public_test_cases: wanted tests of one type, 'stdin' or"
            " 'functional', the latter with func_name in metadata"
        )
    if functional == {True}:
        tests = [_called(function, case) for case in cases]
    else:
        tests = [(case["input"], case["output"]) for case in cases]
        function = None
    used = (
        "question_content",
        "starter_code",
        "public_test_cases",
        "private_test_cases",
        "metadata",
    )
    return Task(
        id=str(row.get("question_id") or name),
        kind="code",
        prompt=_prompt(columns.text(row, "question_content"), starter, function),
        tests=tuple(tests),
        visible_tests=tuple(tests[: len(public)]),
        entry_point=_entry_point(function, starter),
        metadata=columns.others(row, used),
    )


def apps_task(row: dict, name: str) -> Task:
    """A contest problem with tests in `input_output`; APPS and TACO.

    A test is visible if the question shows its input and its output. Some rows have no
    tests and some have wrong ones: `envs.self_test` finds both. The answer is the first
    of `solutions`.
    """
    question = columns.text(row, "question")
    cases = columns.decoded(row, "input_output") if row["input_output"] else {}
    tests, function = input_output_tests(cases, "input_output")
    starter = columns.optional_text(row, "starter_code")
    solutions = columns.decoded(row, "solutions") if row.get("solutions") else []
    if not isinstance(solutions, list) or not all(
        isinstance(solution, str) for solution in solutions
    ):
        raise ValueError("column solutions: wanted a JSON list of source texts")
    visible, hidden = _split_shown(question, tests)
    used = ("question", "input_output", "starter_code", "solutions")
    return Task(
        id=str(row.get("problem_id", name)),
        kind="code",
        prompt=_prompt(question, starter, function),
        answer=columns.newlines(solutions[0]) if solutions else "",
        tests=(*visible, *hidden),
        visible_tests=visible,
        entry_point=_entry_point(function, starter),
        metadata=columns.others(row, used),
    )


def input_output_tests(cases: object, column: str) -> tuple[tuple, str | None]:
    """Tests of {"inputs": [...], "outputs": [...], "fn_name": optional}.

    Outputs of functions may each stand in a list of one: they do if all of a task's do.

    Returns:
        Asserts and the function's name, or pairs and None.
    """
    if not isinstance(cases, dict):
        raise ValueError(f"column {column}: wanted a JSON object, got {cases!r:.80}")
    inputs, outputs = cases.get("inputs", []), cases.get("outputs", [])
    function = cases.get("fn_name")
    if (
        not isinstance(inputs, list)
        or not isinstance(outputs, list)
        or len(inputs) != len(outputs)
    ):
        raise ValueError(f"column {column}: wanted inputs and outputs, equally many")
    if function is None:
        return tuple(
            (_stream(given, column), _stream(wanted, column))
            for given, wanted in zip(inputs, outputs, strict=True)
        ), None
    if not isinstance(function, str) or not function.isidentifier():
        raise ValueError(f"column {column}: wanted fn_name to be a name")
    if not all(isinstance(given, list) for given in inputs):
        raise ValueError(f"column {column}: wanted lists of arguments as inputs")
    if all(isinstance(wanted, list) and len(wanted) == 1 for wanted in outputs):
        outputs = [wanted[0] for wanted in outputs]
    return tuple(
        _assert(function, given, wanted)
        for given, wanted in zip(inputs, outputs, strict=True)
    ), function


def _stream(value: object, column: str) -> str:
    """What a program reads or writes: a text, or a list of its lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise ValueError(f"column {column}: wanted texts, got {value!r:.80}")
    return value


def _assert(function: str, arguments: list, wanted: object) -> str:
    return f"assert {function}({', '.join(map(repr, arguments))}) == {wanted!r}"


def _split_shown(question: str, tests: tuple) -> tuple[tuple, tuple]:
    """(pairs whose two texts stand in the question, all other tests)."""
    shown = " ".join(question.split())
    visible = tuple(
        test
        for test in tests
        if not isinstance(test, str)
        and all(part.strip() and " ".join(part.split()) in shown for part in test)
    )
    return visible, tuple(test for test in tests if test not in visible)


def _prompt(question: str, starter: str, function: str | None) -> str:
    if starter.strip():
        instruction = (
            f"Complete this code:\n```python\n{starter.strip()}\n```\n"
            f"{FUNCTION_INSTRUCTION}"
        )
    elif function:
        instruction = f"Write the function `{function}`. {FUNCTION_INSTRUCTION}"
    else:
        instruction = PROGRAM_INSTRUCTION
    return f"{question.strip()}\n\n{instruction}"


def _entry_point(function: str | None, starter: str) -> str:
    """The function's name, after its class if the starter code has one."""
    if not function:
        return ""
    found = re.search(r"^class\s+(\w+)", starter, re.MULTILINE)
    return f"{found.group(1)}.{function}" if found else function


def _called(function: str, case: dict) -> str:
    """A functional test: one JSON argument per line, and a JSON value."""
    column = "public_test_cases or private_test_cases"
    lines = [line for line in case["input"].split("\n") if line.strip()]
    arguments = [columns.parse_json(line, column) for line in lines]
    return _assert(function, arguments, columns.parse_json(case["output"], column))


def _cases(value: object, column: str) -> list[dict]:
    wanted = ("input", "output", "testtype")
    if not isinstance(value, list) or not all(
        isinstance(case, dict) and all(isinstance(case.get(k), str) for k in wanted)
        for case in value
    ):
        raise ValueError(
            f"column {column}: wanted a JSON list of objects with the texts input,"
            " output and testtype"
        )
    return value


def _private(value: object) -> object:
    """Private tests, whichever way they were written."""
    column = "private_test_cases"
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("[", ""):
        return columns.parse_json(value or "[]", column)
    try:
        packed = base64.b64decode(value, validate=True)
        expander = zlib.decompressobj()
        data = expander.decompress(packed, MAX_BYTES)
        if not expander.eof:
            raise ValueError(f"it is cut short or longer than {MAX_BYTES} bytes")
        source = pickled_text(data)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(
            f"column {column}: wanted JSON, or base64 of zlib of a pickled text:"
            f" {error}"
        ) from error
    return columns.parse_json(source, column)


def pickled_text(data: bytes) -> str:
    """The text in a pickle of one text; nothing is executed or built.

    Raises:
        ValueError: the pickle is malformed or holds anything else.
    """
    texts = []
    for code, argument, _ in pickletools.genops(data):
        if code.name in _TEXT_CODES:
            texts.append(argument)
        elif code.name not in _PLAIN_CODES:
            raise ValueError(f"the pickle holds more than a text ({code.name})")
    if len(texts) != 1:
        raise ValueError(f"the pickle holds {len(texts)} texts, wanted one")
    return texts[0]
