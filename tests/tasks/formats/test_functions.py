"""Functions to write: BigCodeBench, KodCode and MBPP's second edition."""

import json
import sys
import types
import unittest

import pytest

from rlvr_jax.tasks import read_tasks
from tests.tasks.formats import rows


def read(tmp_path, *lines):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_tasks(path)


def test_sanitized_mbpp(tmp_path):
    (task,) = read(tmp_path, rows.MBPP_SANITIZED)
    assert (task.entry_point, task.setup) == ("root", "import math")
    assert task.prompt.startswith("Write a function to find a root.\n")
    exec("\n".join([task.answer, task.setup, *task.tests]), {})


def test_bigcodebench(tmp_path):
    (task,) = read(tmp_path, rows.BIGCODEBENCH)
    assert (task.id, task.kind) == ("BigCodeBench/0", "code")
    assert task.prompt == rows.BIGCODEBENCH["instruct_prompt"]
    assert (task.entry_point, task.visible_tests) == ("task_func", ())
    assert task.metadata == {
        "doc_struct": "{}",
        "libs": "['random']",
        "test_framework": "unittest",
    }
    # The reference and the test, one after the other in one namespace.
    module = types.ModuleType("merged")
    exec(f"{task.answer}\n{task.tests[0]}", module.__dict__)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TestResult()
    suite.run(result)
    assert (result.testsRun, result.wasSuccessful()) == (1, True)


def test_kodcode(tmp_path, monkeypatch):
    (task,) = read(tmp_path, rows.KODCODE)
    assert (task.id, task.kind, task.entry_point) == ("Prefill_1_I", "code", "add")
    assert "def add(a, b):" in task.prompt
    assert "return" not in task.prompt and "assert" not in task.prompt
    assert (task.visible_tests, task.setup) == ((), "")
    assert task.metadata["test_framework"] == "pytest"
    assert task.metadata["difficulty"] == 0.7
    assert task.metadata["gpt_difficulty"] == "easy"
    solution, module = types.ModuleType("solution"), {}
    exec(task.answer, solution.__dict__)
    monkeypatch.setitem(sys.modules, "solution", solution)
    exec(task.tests[0], module)
    module["test_add"]()


def test_all_declarations_are_shown(tmp_path):
    second = {"function_declaration": "def sub(a, b):", "function_name": "sub"}
    info = [*rows.KODCODE["test_info"], second]
    (task,) = read(tmp_path, {**rows.KODCODE, "test_info": info})
    assert "```python\ndef add(a, b):\ndef sub(a, b):\n```" in task.prompt
    assert task.entry_point == "add"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**rows.KODCODE, "test": "assert 1"}, "column test: wanted a pytest module"),
        ({**rows.KODCODE, "test_info": []}, "first function_declaration such as 'def"),
        ({**rows.KODCODE, "test_info": ["x"]}, "test_info: wanted a list of objects"),
        ({**rows.KODCODE, "test_info": [{}]}, "column function_declaration: wanted a"),
        ({**rows.KODCODE, "gpt_pass_percentage": 70}, "difficulty: wanted a number"),
        ({**rows.BIGCODEBENCH, "test": "assert 1"}, "text with a unittest.TestCase"),
        ({**rows.MBPP_SANITIZED, "test_imports": "x"}, "column test_imports: wanted a"),
    ],
)
def test_malformed_rows(tmp_path, row, message):
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 1: .*{message}"):
        read(tmp_path, row)
