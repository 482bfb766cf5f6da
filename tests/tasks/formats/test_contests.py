"""Contest problems: programs, methods, hidden tests and hostile pickles."""

import base64
import json
import os
import pickle
import zlib

import pytest

from rlvr_jax.tasks import read_tasks
from rlvr_jax.tasks.formats import contests
from tests.tasks.formats import rows


def read(tmp_path, *lines):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_tasks(path)


def test_livecodebench_program(tmp_path):
    (task,) = read(tmp_path, rows.LIVECODEBENCH)
    assert (task.id, task.kind, task.entry_point) == ("abc1_a", "code", "")
    assert task.visible_tests == (("1 2\n", "3\n"),)
    assert task.tests == (("1 2\n", "3\n"), ("2 2\n", "4\n"), ("5 5\n", "10\n"))
    assert task.prompt.startswith("Add the two numbers.\n\nWrite a Python program")
    assert "standard input" in task.prompt
    assert task.answer == ""
    assert task.metadata["difficulty"] == "easy"
    assert "private_test_cases" not in task.metadata


def test_livecodebench_method(tmp_path):
    (task,) = read(tmp_path, rows.LIVECODEBENCH_METHOD)
    assert task.entry_point == "Solution.pick"
    assert task.tests == (
        "assert pick([1, 2], True) == None",
        "assert pick(['a'], False) == 'a'",
    )
    assert task.visible_tests == task.tests[:1]
    assert "```python\nclass Solution:\n    def pick(self, xs, ok):\n```" in task.prompt
    solution = (
        "class Solution:\n"
        "    def pick(self, xs, ok):\n"
        "        return None if ok else xs[0]\n"
        "pick = Solution().pick"
    )
    exec("\n".join([solution, *task.tests]), {})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("text", ["short é", "long " * 1000])
def test_a_pickled_text_is_read(protocol, text):
    assert contests.pickled_text(pickle.dumps(text, protocol)) == text


class Command:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Command(), r"more than a text \((STACK_)?GLOBAL\)"),
        (os.system, r"more than a text \((STACK_)?GLOBAL\)"),
        (["a"], r"more than a text \(EMPTY_LIST\)"),
        (b"a", r"more than a text \(SHORT_BINBYTES\)"),
        (("a", "b"), r"more than a text \(TUPLE2\)"),
        (3, r"more than a text \(BININT1\)"),
    ],
)
def test_other_pickles_are_refused(tmp_path, thing, message):
    value = base64.b64encode(zlib.compress(pickle.dumps(thing))).decode()
    row = {**rows.LIVECODEBENCH, "private_test_cases": value}
    wanted = "private_test_cases: wanted JSON, or base64 of zlib of a pickled text"
    with pytest.raises(ValueError, match=rf"line 1: column {wanted}: .*{message}"):
        read(tmp_path, row)


def encoded(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no base64!", "wanted JSON, or base64"),
        (encoded(b"not compressed"), "base64 of zlib of a pickled text: .*header"),
        (encoded(zlib.compress(b"x" * 999)[:-4]), "it is cut short or longer than"),
        (encoded(zlib.compress(b"not pickled")), "of a pickled text"),
        (encoded(zlib.compress(b".")), "the pickle holds 0 texts, wanted one"),
        (rows.packed("{"), "column private_test_cases: not JSON"),
        (rows.packed("{}"), "column private_test_cases: wanted a JSON list of obj"),
        ('[{"input": "1"}]', "the texts input, output and testtype"),
        (rows.cases(("1", "2"), kind="functional"), "wanted tests of one type"),
    ],
)
def test_malformed_private_tests(tmp_path, value, message):
    row = {**rows.LIVECODEBENCH, "private_test_cases": value}
    with pytest.raises(ValueError, match=rf"line 1: .*{message}"):
        read(tmp_path, row)


def test_a_compression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(contests, "MAX_BYTES", 1000)
    row = {**rows.LIVECODEBENCH, "private_test_cases": rows.packed("1" * 2000)}
    with pytest.raises(ValueError, match="longer than 1000 bytes"):
        read(tmp_path, row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": "{}"}, "with func_name in metadata"),
        ({"metadata": "[1]"}, "metadata: wanted a JSON object"),
        ({"public_test_cases": rows.cases(("1;", "1"), kind="functional")}, "not JSON"),
        (
            {"public_test_cases": rows.cases(("1", "NaN"), kind="functional")},
            "no value",
        ),
    ],
)
def test_malformed_methods(tmp_path, changes, message):
    with pytest.raises(ValueError, match=rf"line 1: column .*{message}"):
        read(tmp_path, {**rows.LIVECODEBENCH_METHOD, **changes})


def test_apps_program_shows_the_tests_of_its_question(tmp_path):
    (task,) = read(tmp_path, rows.APPS)
    assert (task.id, task.kind, task.entry_point) == ("12", "code", "")
    assert task.visible_tests == (("4\n", "8\n"),)
    assert task.tests == (("4\n", "8\n"), ("7\n", "14\n"))
    assert task.answer == "print(2 * int(input()))"
    assert task.metadata["difficulty"] == "introductory"
    assert "solutions" not in task.metadata
    lines = {"inputs": [["1", "2"]], "outputs": [["3"]]}
    (task,) = read(tmp_path, {**rows.APPS, "input_output": json.dumps(lines)})
    assert task.tests == (("1\n2", "3"),)


def test_apps_function(tmp_path):
    (task,) = read(tmp_path, rows.APPS_FUNCTION)
    assert task.entry_point == "twice"
    # All outputs stand in lists of one, so that is a wrapping.
    assert task.tests == (
        "assert twice([1, 2]) == [2, 4]",
        "assert twice([]) == []",
    )
    assert "```python\ndef twice(xs):\n```" in task.prompt
    bare = {"fn_name": "twice", "inputs": [[[1]], [[]]], "outputs": [[2], []]}
    row = {**rows.APPS_FUNCTION, "input_output": bare, "starter_code": None}
    (task,) = read(tmp_path, row)
    assert task.tests[0] == "assert twice([1]) == [2]"
    assert "Write the function `twice`." in task.prompt


def test_apps_without_tests_or_solutions(tmp_path):
    (task,) = read(tmp_path, {**rows.APPS, "input_output": "", "solutions": ""})
    assert (task.tests, task.answer) == ((), "")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("input_output", "[1]", "wanted a JSON object"),
        ("input_output", '{"inputs": ["1"]}', "wanted inputs and outputs, equally m"),
        ("input_output", '{"inputs": [1], "outputs": ["1"]}', "wanted texts, got 1"),
        ("input_output", '{"inputs": [1], "outputs": [NaN]}', "no value of JSON"),
        (
            "input_output",
            '{"fn_name": "f", "inputs": [1], "outputs": [1]}',
            "wanted lists of arguments",
        ),
        ("input_output", '{"fn_name": "f()"}', "wanted fn_name to be a name"),
        ("solutions", '{"a": 1}', "wanted a JSON list of source texts"),
    ],
)
def test_malformed_apps(tmp_path, column, value, message):
    with pytest.raises(ValueError, match=rf"line 1: column {column}: .*{message}"):
        read(tmp_path, {**rows.APPS, column: value})
