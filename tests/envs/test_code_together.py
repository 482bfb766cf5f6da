"""Tests in one jail with the solution: objects, unittest; and forging there."""

import time

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.code import HIDDEN_FEEDBACK, inventory
from rlvr_jax.envs.code.reports import Report, verdict_of
from rlvr_jax.envs.code.together import TAMPERED
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.tasks.records import Task

LIMITS = Limits(cpu_seconds=0.8, wall_seconds=8.0)
NODES = Task(
    id="nodes",
    kind="code",
    prompt="",
    setup="root = Node(1)\nroot.left = Node(2)",
    tests=("assert height(root) == 2", "assert height(Node(4)) == 1"),
    visible_tests=("assert height(root) == 2",),
    entry_point="height",
)
NODE = "class Node:\n  def __init__(self, x): self.left = None\n"
HEIGHT = NODE + "def height(n): return 1 + height(n.left) if n else 0"
TYPES = Task(
    id="types",
    kind="code",
    prompt="",
    tests=("assert drop((1, 'a'), int) == ['a']",),
    entry_point="drop",
)
CALLBACK = Task(
    id="callback",
    kind="code",
    prompt="",
    tests=("assert twice(lambda x: x + 3, 1) == 7",),
    entry_point="twice",
)
CASE = Task(
    id="case",
    kind="code",
    prompt="",
    tests=(
        """
import unittest
from unittest.mock import patch
class TestAdd(unittest.TestCase):
    def setUp(self):
        self.one = 1
    def test_ints(self):
        self.assertEqual(add(self.one, 2), 3)
        self.assertTrue(add(1, 1) < 3)
    def test_lists(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertListEqual(add([i], [i]), [i, i])
    @patch("builtins.print")
    def test_silent(self, told):
        add(1, 2)
        told.assert_not_called()
    @unittest.skip("not today")
    def test_skipped(self):
        self.fail()
""",
    ),
    entry_point="add",
    metadata={"test_framework": "unittest"},
)
ADD = "def add(a, b): return a + b"


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("code", workers=2, limits=LIMITS) as verifier:
        yield verifier


def grade(verifier, task, response):
    return verifier.verify([(task, response)])[0]


@pytest.mark.parametrize(
    ("task", "response", "status", "passed", "total"),
    [
        (NODES, HEIGHT, "passed", 2, 2),
        (NODES, NODE + "def height(n): return 2", "failed", 1, 2),
        (NODES, NODE + "def height(n): return n.right", "error", 0, 2),
        (NODES, NODE + "def height(n):\n  while True: pass", "timeout", 0, 2),
        (NODES, "def height(n): return 2", "error", 0, 2),
        (NODES, "def height(n) return 2", "no_answer", 0, 2),
        (
            TYPES,
            "def drop(v, t): return [x for x in v if type(x) != t]",
            "passed",
            1,
            1,
        ),
        (TYPES, "def drop(v, t): return v", "failed", 0, 1),
        (CALLBACK, "def twice(f, x): return f(f(x))", "passed", 1, 1),
        (CALLBACK, "def twice(f, x): return f(x)", "failed", 0, 1),
        (CASE, ADD, "passed", 3, 3),
        (CASE, "def add(a, b): print(a); return a + b", "failed", 2, 3),
        (CASE, "def add(a, b): return a + b if a != [2] else 0", "failed", 2, 3),
        (CASE, "def add(a, b): return a.x", "error", 0, 3),
        (CASE, "def sub(a, b): return a", "error", 0, 3),
        (CASE, "1 / 0", "error", 0, 3),
    ],
)
def test_verdicts(verifier, task, response, status, passed, total):
    verdict = grade(verifier, task, response)
    found = (verdict.status, verdict.passed, verdict.total)
    assert found == (status, passed, total), verdict.feedback
    assert verdict.reward == passed / total
    assert verdict.solved is (passed == total)


def test_feedback(verifier):
    verdict = grade(verifier, NODES, NODE + "def height(n): return 5")
    assert verdict.feedback == (
        "Test failed: assert height(root) == 2\nExpected: 2\nActual: 5"
    )
    verdict = grade(verifier, NODES, NODE + "def height(n): return n.up")
    assert verdict.feedback == (
        "Test failed: assert height(root) == 2\n"
        "AttributeError: 'Node' object has no attribute 'up'\n"
        "  line 3, in height: def height(n): return n.up"
    )
    assert grade(verifier, CASE, "def add(a, b): return 3").feedback == HIDDEN_FEEDBACK


EQUAL = "class Equal:\n  def __eq__(self, other): return True\n"
EQUAL += (
    "  def __lt__(self, other): return True\n  def __iter__(self): return iter('')\n"
)
FORGERIES = {
    "os._exit": "import os\nos._exit(0)",
    "os._exit in a call": "import os\ndef add(a, b): os._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "sys.exit in a call": "import sys\ndef add(a, b): sys.exit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): exit()",
    "prints": "print('OK')\nprint('Ran 3 tests in 0.000s')\n"
    "def add(a, b): print('OK'); print('passed')",
    "always equal": EQUAL + "def add(a, b): return Equal()",
    "list of always equal": EQUAL + "def add(a, b): return [Equal(), Equal()]",
    "equal int": "class A(int):\n  def __eq__(self, o): return True\n"
    "  __hash__ = None\ndef add(a, b): return A(7)",
    "mock.ANY": "from unittest import mock\ndef add(a, b): return mock.ANY",
    "patched unittest": "import unittest\n"
    "unittest.TestCase.assertEqual = lambda *a: None\n"
    "unittest.TestCase.assertTrue = lambda *a: None\n"
    "unittest.TestCase.assertListEqual = lambda *a: None\ndef add(a, b): return 0",
    "patched in a call": "def add(a, b):\n  import unittest\n"
    "  unittest.TestCase.assertListEqual = lambda *a: None\n"
    "  return a + b if type(a) == int else 0",
    "patched harness": "import sys, unittest\n"
    "seal = sys.modules['rlvr_jax.envs.sandbox.integrity'].Seal\n"
    "seal.broken = lambda self: ''\n"
    "unittest.TestCase.assertListEqual = lambda *a: None\n"
    "def add(a, b): return a + b if type(a) == int else 0",
    "patched code": "import unittest\ndef f(self, *a): pass\n"
    "unittest.TestCase.assertTrue.__code__ = f.__code__\n"
    "def add(a, b): return a + b if a != 1 or b != 1 else 9",
    "no runner": "import unittest\nunittest.TestCase.run = lambda self, r: r\n",
    "patched result": "import unittest\n"
    "unittest.TestResult.addFailure = unittest.TestResult.addError = print\n"
    "unittest.case._Outcome.testPartExecutor = None\ndef add(a, b): return 0",
    "another unittest": "import sys, types\n"
    "class T:\n  def __getattr__(self, n): return lambda *a: True\n"
    "m = types.ModuleType('unittest'); m.TestCase = type('TestCase', (), {})\n"
    "sys.modules['unittest'] = m\ndef add(a, b): return T()",
    "skips": "import unittest\ndef add(a, b): raise unittest.SkipTest('no')",
    "patched builtins": "import builtins\nbuiltins.isinstance = lambda *a: True\n"
    "builtins.len = lambda x: 0\ndef add(a, b): return 0",
    "own builtins": "def len(x): return 0\ndef abs(x): return 0\n"
    "class AssertionError(Exception): pass\ndef add(a, b): return 0",
    "trace": "import sys\ndef trace(frame, event, arg): return trace\n"
    "sys.settrace(trace)\ndef add(a, b): sys.settrace(trace); return a + b",
    "guessed frames": "import os, struct\ndef add(a, b):\n"
    "  for fd in range(3, 64):\n    for _ in range(9):\n"
    "      try: os.write(fd, struct.pack('<I', 5) + b'n' + bytes(4))\n"
    "      except OSError: pass\n  return a + b",
    "reads the tests": "import gc, sys\ndef name(): return 'class Test' + chr(65)\n"
    "def look():\n  frame = sys._getframe(1)\n"
    "  while frame:\n    if name() in repr(frame.f_locals): return True\n"
    "    frame = frame.f_back\n"
    "  return any(name() in repr(o) for o in gc.get_objects()\n"
    "             if isinstance(o, (str, list, dict, tuple)))\n"
    "SEEN = look()\ndef add(a, b): return a + b if SEEN else None",
    "loop": "def add(a, b):\n  while True: pass",
    "loop in except": "def add(a, b):\n  while True:\n    try:\n"
    "      while True: pass\n    except BaseException: pass",
    "flood": "def add(a, b):\n  while True: print('OK' * 100_000)",
    "removed test": "import sys\nfor m in ('solution', '__main__', '__test__'):\n"
    "  del sys.modules[m]\ndef add(a, b): raise KeyboardInterrupt",
}


@pytest.fixture(scope="module")
def forged(verifier):
    pairs = [(CASE, source) for source in FORGERIES.values()]
    goods = [(CASE, f"{ADD}  # {number}") for number in range(len(pairs))]
    mixed = [pair for both in zip(pairs, goods, strict=True) for pair in both]
    verdicts = verifier.verify(mixed)
    return dict(zip(FORGERIES, verdicts[::2], strict=True)), verdicts[1::2]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_not_a_pass(forged, name):
    verdict = forged[0][name]
    assert not verdict.solved
    assert verdict.reward is not None


def test_neighbours_of_forgeries_pass(forged):
    assert all(verdict.solved for verdict in forged[1])


def test_asking_for_the_tests_too_early_ends_the_run(verifier):
    source = """
import os, struct, sys, time
def text(value): return b"s" + struct.pack("<I", len(value)) + value
body = b"u" + struct.pack("<II", 4, 3) + text(b"loaded") + text(b"guess") + text(b"0")
for fd in range(3, 64):
    try: os.write(fd, struct.pack("<I", len(body)) + body)
    except OSError: pass
time.sleep(60)
"""
    start = time.monotonic()
    verdict = grade(verifier, CASE, source)
    assert (verdict.status, verdict.reward) == ("error", 0.0)
    assert time.monotonic() - start < 5


def test_objects_of_a_response_do_not_choose_one_jail(verifier):
    task = Task(
        id="codes",
        kind="code",
        prompt="",
        tests=("assert decode(encode('ab')) == 'ab'",),
        answer="def encode(s): return s[::-1]\ndef decode(s): return s[::-1]",
        entry_point="decode",
    )
    objects = (
        "class Code:\n  def __init__(self, s): self.s = s\n"
        "def encode(s): return Code(s)\ndef decode(code): return code.s"
    )
    assert grade(verifier, task, task.answer + "  # mine").solved
    assert grade(verifier, task, objects).passed == 0
    # Where the reference does the same, or where there is none, it is right.
    for answer in (objects, ""):
        other = Task(**vars(task) | {"id": f"codes {answer}", "answer": answer})
        assert grade(verifier, other, objects + "  # mine").solved


def test_tampering_is_named(verifier):
    task = Task(**{**vars(CASE), "id": "shown", "visible_tests": CASE.tests})
    source = "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n" + ADD
    verdict = grade(verifier, task, source)
    assert (verdict.status, verdict.passed) == ("failed", 0)
    assert verdict.feedback.endswith(TAMPERED)


@pytest.mark.parametrize(
    "height",
    [
        "return Equal()",
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "import builtins; builtins.isinstance = lambda *a: True; return 3",
        "n.__class__.__eq__ = lambda *a: True; return n",
    ],
)
def test_a_forgery_of_asserts_is_not_a_pass(verifier, height):
    response = f"{NODE}{EQUAL}def height(n): {height}"
    assert grade(verifier, NODES, response).passed == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tests": ("import unittest",)}, "no test for unittest"),
        ({"tests": ("def f(:",)}, "cannot be run"),
        ({"metadata": {"test_framework": "nose"}}, "'nose'"),
    ],
)
def test_suites_without_tests_are_not_scored(verifier, changes, reason):
    task = Task(**{**vars(CASE), "id": reason} | changes)
    verdict = grade(verifier, task, ADD)
    assert (verdict.reward, verdict.status) == (None, "abstained")
    assert reason in verdict.feedback


def test_results_without_an_end_are_not_a_pass():
    items = inventory.items(("assert f(1) == 1\nassert f(2) == 2",), "")
    report = Report(items)
    report.add(0, "0", "passed", {})
    report.add(0, "1", "passed", {})
    task = Task("t", "code", "")
    assert verdict_of(task, "", [], report).passed == 1
    report.complete = True
    assert verdict_of(task, "", [], report).solved
    report.tampered = True
    assert verdict_of(task, "", [], report).passed == 0


def test_results_that_are_too_many_or_unknown_are_not_a_pass():
    source = (
        "import pytest\nNS = [1, 2]\n"
        "@pytest.mark.parametrize('n', NS)\ndef test_n(n): pass\n"
        "@pytest.mark.parametrize('n', range(3))\ndef test_m(n): pass\n"
    )
    items = inventory.items((source,), "pytest")
    assert [(item.name, item.runs) for item in items] == [("test_n", 2), ("test_m", 0)]
    report = Report(items)
    report.add(0, "test_n[1]", "passed", {})
    report.add(0, "test_m[0]", "passed", {})
    report.add(0, "test_m", "strange", {"a": 1})
    report.add("0", "test_n[2]", "passed", {})
    assert [report.detail(item) for item in items] == [{"gone": True}, {"a": 1}]
    report.add(0, "test_n[2]", "passed", {})
    assert report.detail(items[0]) is None
    report.add(0, "test_n[3]", "passed", {})
    assert report.detail(items[0]) == {"gone": True}


HUGE = 10**5000  # too long for Python to print
DETAILS = (
    *(
        {"error": HUGE},
        {"error": (HUGE, HUGE, HUGE)},
        {"error": ("E", "m", [(1, HUGE)])},
    ),
    *({"actual": HUGE}, {"actual": "1", "expected": HUGE}, {"gone": HUGE}, {1: 2}),
)


@pytest.mark.parametrize("detail", DETAILS, ids=range(len(DETAILS)))
def test_strange_details_do_not_stop_the_verifier(detail):
    source = "assert f(1) == 1"
    task = Task("t", "code", "", tests=(source,), visible_tests=(source,))
    for loaded in (("loaded", HUGE), ("loaded", 0)):
        report = Report(inventory.items((source,), ""))
        report.loaded, report.complete = loaded, True
        report.add(0, "0", "failed", detail)
        verdict = verdict_of(task, "x = 1", [("x = 1", 0)], report)
        assert (verdict.reward, verdict.solved) == (0.0, False)
        assert len(verdict.feedback) < 500


def test_strange_frames_do_not_stop_the_verifier(verifier):
    source = """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
for fd in range(3, 64):
    frame = codec.frame(("load_error", 0, 10**5000, 10**5000, [(1, 2**20000)]))
    try: os.write(fd, frame)
    except OSError: pass
"""
    task = Task("strange", "code", "", tests=("assert f(1) == 1",), entry_point="f")
    verdict = grade(verifier, task, source)
    assert (verdict.reward, verdict.status) == (0.0, "error")
