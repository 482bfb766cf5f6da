"""From rows of data sets to verdicts: what the readers write the verifier grades."""

import base64
import json
import pickle
import zlib

import pytest

from rlvr_jax import envs, tasks
from rlvr_jax.envs.code import HIDDEN_FEEDBACK

# Rows of our own invention, in the columns of each data set.
STREAM_CASES = [
    {"input": "3\n1 2 3\n", "output": "6\n", "testtype": "stdin"},
    {"input": "1\n9\n", "output": "9\n", "testtype": "stdin"},
]
CALL_CASES = [
    {"input": "[2, 7]\n9", "output": "[0, 1]", "testtype": "functional"},
    {"input": "[5, 3, 3]\n6", "output": "[1, 2]", "testtype": "functional"},
]
STARTER = "class Solution:\n    def pair(self, xs: List[int], n: int) -> List[int]:"
SUM = "n = int(input())\nprint(sum(map(int, input().split())))"
PAIR = (
    f"{STARTER}\n        for i, x in enumerate(xs):\n"
    "            if n - x in xs[i + 1 :]:\n"
    "                return [i, xs.index(n - x, i + 1)]"
)


def livecodebench(cases, starter, **metadata):
    packed = zlib.compress(pickle.dumps(json.dumps(cases[1:])))
    return {
        "question_id": "lcb",
        "question_content": "Do it.",
        "starter_code": starter,
        "public_test_cases": json.dumps(cases[:1]),
        "private_test_cases": base64.b64encode(packed).decode(),
        "metadata": json.dumps(metadata),
    }


def apps(cases, solution, **fields):
    return {
        "problem_id": 7,
        "question": "Sum. Input: 3 1 2 3 Output: 6",
        "solutions": json.dumps([solution]),
        "input_output": json.dumps(cases),
        "starter_code": "",
    } | fields


STREAMS = {"inputs": ["3\n1 2 3\n", "2\n4 5\n"], "outputs": ["6\n", "9\n"]}
CALLS = {"inputs": [[1, 2], [3, 4]], "outputs": [[3], [7]], "fn_name": "add"}
ROWS = {
    "livecodebench program": (livecodebench(STREAM_CASES, ""), SUM),
    "livecodebench method": (
        livecodebench(CALL_CASES, STARTER, func_name="pair"),
        PAIR,
    ),
    "apps program": (apps(STREAMS, SUM), SUM),
    "apps function": (
        apps(CALLS, "def add(a, b): return a + b", problem_id=8),
        "def add(a, b): return a + b",
    ),
    "kodcode": (
        {
            "question_id": "kod",
            "question": "Add them.",
            "solution": "def add(a, b):\n    return a + b",
            "test": "from solution import add\n\ndef test_add():\n"
            "    assert add(1, 2) == 3\n\ndef test_more():\n"
            "    assert add('a', 'b') == 'ab'\n",
            "test_info": [{"function_declaration": "def add(a, b):"}],
        },
        "def add(a, b):\n    return a + b",
    ),
    "bigcodebench": (
        {
            "task_id": "BigCodeBench/0",
            "code_prompt": "import json\nimport random\ndef task_func(path, seed=0):\n",
            "canonical_solution": "    random.seed(seed)\n"
            "    with open(path) as file:\n        data = json.load(file)\n"
            "    return random.choice(data)\n",
            "instruct_prompt": "Choose from a file.",
            "complete_prompt": "",
            "test": "import unittest\nfrom unittest.mock import mock_open, patch\n"
            "class TestCases(unittest.TestCase):\n"
            "    def setUp(self):\n        self.path = 'numbers.json'\n"
            "        with open(self.path, 'w') as file:\n"
            "            json.dump([4, 4], file)\n"
            "    def test_file(self):\n"
            "        self.assertEqual(task_func(self.path), 4)\n"
            "    @patch('builtins.open', new_callable=mock_open, read_data='[1]')\n"
            "    def test_patched(self, opened):\n"
            "        self.assertEqual(task_func('none'), 1)\n"
            "        opened.assert_called_once_with('none')\n"
            "    @patch('random.choice', return_value=8)\n"
            "    def test_chosen(self, choice):\n"
            "        self.assertEqual(task_func(self.path), 8)\n",
            "entry_point": "task_func",
            "libs": "['random', 'json']",
        },
        "import json, random\ndef task_func(path, seed=0):\n"
        "    return random.choice(json.load(open(path)))",
    ),
}


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("code", workers=1) as verifier:
        yield verifier


@pytest.mark.parametrize("name", ROWS)
def test_a_row_becomes_a_verdict(verifier, tmp_path, name):
    row, response = ROWS[name]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (task,) = tasks.read_tasks(path)
    kept, failed = envs.self_test(verifier, [task])
    assert kept == [task], failed
    answers = [f"```python\n{response}\n```", "pass", "def add(a, b): return 3"]
    right, empty, wrong = verifier.verify([(task, answer) for answer in answers])
    assert right.solved, right.feedback
    assert right.total == len(task.tests) or name in ("kodcode", "bigcodebench")
    for verdict in (empty, wrong):
        assert not verdict.solved
        assert verdict.reward is not None
        shown = [str(test) for test in task.visible_tests]
        assert shown or verdict.feedback == HIDDEN_FEEDBACK
