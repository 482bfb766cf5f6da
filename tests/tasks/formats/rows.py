"""One hand-written row of each family, with the columns that the data sets have."""

import base64
import json
import pickle
import zlib

GSM8K = {"question": "Two and 1,232?", "answer": "2+1232=<<2+1232=1234>>\n#### 1,234"}
SVAMP = {
    "ID": "chal-1",
    "Body": "Ann has 8 pens and buys 2 more",
    "Question": "How many has she now?",
    "Equation": "( 8.0 + 2.0 )",
    "Answer": 10.0,
    "Type": "Addition",
}
MATH = {
    "problem": "What is half of $1$?",
    "level": "Level 2",
    "type": "Prealgebra",
    "solution": r"Not $\boxed{1}$ but $\boxed{\frac{1}{2}}$, unlike $\boxed{3$.",
}
AIME = {
    "id": 60,
    "problem": "Find the remainder.",
    "solution": "It is 73.",
    "answer": "073",
    "url": "https://example.org/2024_AIME_I",
    "year": "2024",
}
POLARIS = {"problem": "Find $x$.", "answer": "2\\pi", "difficulty": "3/8"}
GPQA = {
    "Record ID": "rec1",
    "Question": "Which is heaviest?",
    "Correct Answer": "lead\n",
    "Incorrect Answer 1": "water",
    "Incorrect Answer 2": "air",
    "Incorrect Answer 3": "wood",
}
CHOICES = {
    "question": "Which is a colour?",
    "subject": "words",
    "choices": ["one", "red", "dog"],
    "answer": 1,
}
HUMANEVAL = {
    "task_id": "HumanEval/999",
    "prompt": 'def outer(x):\n    """Doubles.\n    >>> outer(2)\n    4\n    """\n',
    "entry_point": "outer",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n",
}
MBPP = {
    "task_id": 7,
    "text": "Write a function to double.",
    "code": "def twice(x):\r\n  return 2*x",
    "test_setup_code": "",
    "test_list": ["assert twice(1) == 2", "assert twice(0) == 0"],
    "challenge_test_list": [],
}
MBPP_SANITIZED = {
    "source_file": "Benchmark.ipynb",
    "task_id": 8,
    "prompt": "Write a function to find a root.",
    "code": "def root(x):\n  return x ** 0.5",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(root(4), 2)"],
}
BIGCODEBENCH = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": 'import random\ndef task_func(n):\n    """Draws."""\n',
    "instruct_prompt": "Draw n numbers.\nYou should write self-contained code.",
    "canonical_solution": "    return [random.random() for _ in range(n)]",
    "code_prompt": "import random\ndef task_func(n):\n",
    "test": "import unittest\nclass TestCases(unittest.TestCase):\n"
    "    def test_length(self):\n        self.assertEqual(len(task_func(3)), 3)\n",
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['random']",
}
KODCODE = {
    "style": "instruct",
    "subset": "Prefill",
    "question_id": "Prefill_1_I",
    "question": "Write a function that adds.",
    "solution": "def add(a, b):\n    return a + b",
    "test": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "test_info": [
        {
            "docstring": "Adds.",
            "function_declaration": "def add(a, b):",
            "function_name": "add",
            "parameter_list": "(a, b)",
        }
    ],
    "gpt_pass_percentage": 0.7,
    "gpt_difficulty": "easy",
}


def cases(*pairs, kind="stdin"):
    """LiveCodeBench's JSON text of tests."""
    return json.dumps([{"input": i, "output": o, "testtype": kind} for i, o in pairs])


def packed(text):
    """How LiveCodeBench hides its private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode()


LIVECODEBENCH = {
    "question_title": "Sum",
    "question_content": "Add the two numbers.",
    "platform": "atcoder",
    "question_id": "abc1_a",
    "contest_id": "abc1",
    "contest_date": "2024-01-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": cases(("1 2\n", "3\n")),
    "private_test_cases": packed(cases(("2 2\n", "4\n"), ("5 5\n", "10\n"))),
    "metadata": "{}",
}
LIVECODEBENCH_METHOD = {
    **LIVECODEBENCH,
    "platform": "leetcode",
    "question_id": "1",
    "starter_code": "class Solution:\n    def pick(self, xs, ok):\n        ",
    "public_test_cases": cases(("[1, 2]\ntrue", "null"), kind="functional"),
    "private_test_cases": cases(('["a"]\nfalse', '"a"'), kind="functional"),
    "metadata": '{"func_name": "pick"}',
}
APPS = {
    "problem_id": 12,
    "question": "Double the number.\n\n-----Example-----\nInput\n4\n\nOutput\n8\n",
    "solutions": json.dumps(["print(2 * int(input()))", "pass"]),
    "input_output": json.dumps({"inputs": ["7\n", "4\n"], "outputs": ["14\n", "8\n"]}),
    "difficulty": "introductory",
    "url": "https://example.org/p",
    "starter_code": "",
}
APPS_FUNCTION = {
    **APPS,
    "input_output": json.dumps(
        {"fn_name": "twice", "inputs": [[[1, 2]], [[]]], "outputs": [[[2, 4]], [[]]]}
    ),
    "starter_code": "def twice(xs):\n\t",
}
VERL = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "2+2?"}],
    "ability": "math",
    "reward_model": {"style": "rule", "ground_truth": "4"},
    "extra_info": {"split": "train", "index": 0},
}
TRL = {"prompt": "2+2?", "answer": "4", "info": {"source": "mine"}, "weight": 2}

FAMILIES = {
    "gsm8k": [GSM8K],
    "svamp": [SVAMP],
    "math": [MATH],
    "aime": [AIME],
    "polaris": [POLARIS],
    "gpqa": [GPQA],
    "choices": [CHOICES],
    "humaneval": [HUMANEVAL],
    "mbpp": [MBPP, MBPP_SANITIZED],
    "bigcodebench": [BIGCODEBENCH],
    "kodcode": [KODCODE],
    "livecodebench": [LIVECODEBENCH, LIVECODEBENCH_METHOD],
    "apps": [APPS, APPS_FUNCTION],
    "verl": [VERL],
    "trl": [TRL, {"prompt": "Add.", "tests": ["assert add(1, 2) == 3"]}],
    "task": [{"id": "mine/1", "kind": "math", "prompt": "2+2?", "answer": "4"}],
}
