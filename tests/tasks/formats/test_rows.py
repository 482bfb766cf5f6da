"""Rows of verl and TRL: golds, tests, and columns that reward functions want."""

import json

import pytest

from rlvr_jax.tasks import read_tasks
from tests.tasks.formats import rows

TESTS = {"inputs": ["1\n"], "outputs": ["2\n"]}


def read(tmp_path, *lines, format="auto"):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_tasks(path, format)


def verl(gold):
    return {**rows.VERL, "reward_model": {"style": "rule", "ground_truth": gold}}


def test_verl(tmp_path):
    (task,) = read(tmp_path, rows.VERL)
    assert (task.kind, task.answer) == ("math", "4")
    assert task.prompt == rows.VERL["prompt"]
    wanted = {key: value for key, value in rows.VERL.items() if key != "prompt"}
    assert task.metadata == {**wanted, "ground_truth": "4"}


@pytest.mark.parametrize(
    ("gold", "answer"), [(4.0, "4"), (["4"], "4"), (["4", "5"], '["4", "5"]')]
)
def test_verl_golds_keep_their_type_for_reward_functions(tmp_path, gold, answer):
    (task,) = read(tmp_path, verl(gold))
    assert (task.answer, task.metadata["ground_truth"]) == (answer, gold)


@pytest.mark.parametrize("gold", [TESTS, json.dumps(TESTS)])
def test_verl_code(tmp_path, gold):
    (task,) = read(tmp_path, verl(gold))
    assert (task.kind, task.answer, task.entry_point) == ("code", "", "")
    assert task.tests == (("1\n", "2\n"),)
    assert task.metadata["ground_truth"] == gold


def test_verl_function(tmp_path):
    tests = {"fn_name": "f", "inputs": [[1]], "outputs": [2]}
    (task,) = read(tmp_path, verl(tests))
    assert (task.tests, task.entry_point) == (("assert f(1) == 2",), "f")


def test_trl(tmp_path):
    (task,) = read(tmp_path, {**rows.TRL, "solution": None})
    assert (task.kind, task.prompt, task.answer) == ("math", "2+2?", "4")
    wanted = {"answer": "4", "info": {"source": "mine"}, "weight": 2}
    assert task.metadata == wanted


@pytest.mark.parametrize("column", ["answer", "solution", "ground_truth", "label"])
def test_trl_golds(tmp_path, column):
    messages = [{"role": "system", "content": "Add."}, *rows.VERL["prompt"]]
    row = {"prompt": messages, column: 4, "extra_info": {"index": 1}}
    (task,) = read(tmp_path, row)
    assert (task.prompt, task.answer) == (messages, "4")
    assert task.metadata == {column: 4, "extra_info": {"index": 1}}


def test_trl_takes_the_first_gold_with_something_in_it(tmp_path):
    (task,) = read(
        tmp_path, {"prompt": "p", "answer": None, "label": "b", "solution": "a"}
    )
    assert task.answer == "a"


def test_trl_without_a_gold_if_it_is_named(tmp_path):
    row = {"prompt": "Say something short.", "length": 3}
    (task,) = read(tmp_path, row, format="trl")
    assert (task.answer, task.metadata) == ("", {"length": 3})
    with pytest.raises(ValueError, match="no known format has the columns"):
        read(tmp_path, row)


@pytest.mark.parametrize(
    ("tests", "wanted", "entry_point"),
    [
        (["assert add(1, 2) == 3"], ("assert add(1, 2) == 3",), "add"),
        ('["assert 1 < len([2])"]', ("assert 1 < len([2])",), ""),
        ([["1 2\n", "3\n"]], (("1 2\n", "3\n"),), ""),
        ([{"input": "1 2\n", "output": "3\n"}], (("1 2\n", "3\n"),), ""),
        (TESTS, (("1\n", "2\n"),), ""),
        ({"fn_name": "f", "inputs": [[1]], "outputs": [1]}, ("assert f(1) == 1",), "f"),
    ],
)
def test_trl_tests(tmp_path, tests, wanted, entry_point):
    row = {"prompt": "p", "tests": tests, "solution": "def add(a, b): return a + b"}
    (task,) = read(tmp_path, row)
    assert (task.kind, task.tests, task.entry_point) == ("code", wanted, entry_point)
    assert task.answer == row["solution"]
    assert task.metadata["tests"] == tests
    (task,) = read(tmp_path, {**row, "entry_point": "main"})
    assert task.entry_point == "main"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**rows.VERL, "reward_model": {}}, "wanted an object with ground_truth"),
        ({**rows.VERL, "prompt": []}, "column prompt: wanted a text or a list of mes"),
        ({**rows.TRL, "prompt": " "}, "column prompt: wanted a text or a list of mes"),
        ({"prompt": "p", "tests": "assert"}, "column tests: not JSON"),
        ({"prompt": "p", "tests": [["1", 2]]}, "column tests: wanted asserts, or pai"),
        ({"prompt": "p", "tests": [{"in": "1"}]}, "column tests: wanted asserts, or"),
        ({"prompt": "p", "tests": {"inputs": []}}, "column tests: wanted a list of a"),
    ],
)
def test_malformed_rows(tmp_path, row, message):
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 1: .*{message}"):
        read(tmp_path, row)
