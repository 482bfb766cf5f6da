"""Pytest modules that import from `solution`, and tasks of several files."""

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.code import HIDDEN_FEEDBACK
from rlvr_jax.envs.code.needs import one_jail
from rlvr_jax.envs.sandbox import Limits, packages
from rlvr_jax.tasks.records import Task

LIMITS = Limits(cpu_seconds=0.8, wall_seconds=8.0)


def module(name, source, **changes):
    fields = {
        "id": name,
        "kind": "code",
        "prompt": "",
        "tests": (source,),
        "entry_point": "add",
        "metadata": {"test_framework": "pytest"},
    }
    return Task(**fields | changes)


PLAIN = module(
    "plain",
    """
import pytest
from solution import add

def test_ints():
    assert add(1, 2) == 3

@pytest.mark.parametrize("a, b, c", [(1, 1, 2), ("a", "b", "ab"), ([1], [2], [1, 2])])
def test_kinds(a, b, c):
    assert add(a, b) == c

def test_floats():
    assert add(0.1, 0.2) == pytest.approx(0.3)

def test_error():
    with pytest.raises(TypeError):
        add(1, "a")

class TestMore:
    def test_zero(self):
        assert add(0, 0) == 0

@pytest.mark.skip
def test_skipped():
    assert False
""",
)
OBJECTS = module(
    "objects",
    """
import pytest
from solution import Stack, StackEmpty

@pytest.fixture
def stack():
    return Stack()

def test_push(stack):
    stack.push(3)
    assert stack.pop() == 3

def test_empty(stack):
    with pytest.raises(StackEmpty):
        stack.pop()

def test_prints(stack, capsys):
    stack.show()
    assert capsys.readouterr().out == "[]\\n"

@pytest.mark.parametrize("n", [1, 2])
def test_many(stack, n):
    for i in range(n):
        stack.push(i)
    assert stack.pop() == n - 1
""",
    entry_point="Stack",
)
ADD = "def add(a, b): return a + b"
STACK = """
class StackEmpty(Exception): pass
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self):
        if not self.items: raise StackEmpty
        return self.items.pop()
    def show(self): print(self.items)
"""


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("code", workers=1, limits=LIMITS) as verifier:
        yield verifier


def grade(verifier, task, response):
    return verifier.verify([(task, response)])[0]


@pytest.mark.parametrize(
    ("task", "response", "status", "passed", "total"),
    [
        (PLAIN, ADD, "passed", 5, 5),
        (PLAIN, "def add(a, b): return a + b if a != [1] else 0", "failed", 4, 5),
        (PLAIN, "def add(a, b): return a + b + 1e-3", "failed", 1, 5),
        (PLAIN, "def add(a, b): raise TypeError", "error", 1, 5),
        (PLAIN, "def sub(a, b): return a", "error", 0, 5),
        (PLAIN, "import os\ndef add(a, b): os._exit(0)", "error", 0, 5),
        (PLAIN, "import pytest\ndef add(a, b): pytest.skip('x')", "error", 0, 5),
        (PLAIN, "def add(a, b):\n  while True: pass", "timeout", 0, 5),
        (PLAIN, "1 / 0", "error", 0, 5),
        (OBJECTS, STACK, "passed", 4, 4),
        (OBJECTS, STACK.replace("print(", "str("), "failed", 3, 4),
        (OBJECTS, STACK.replace("raise StackEmpty", "return"), "failed", 3, 4),
        (OBJECTS, STACK.replace("self.items.pop", "self.items.get"), "error", 2, 4),
        (OBJECTS, "class Stack: pass", "error", 0, 4),
        (OBJECTS, ADD, "error", 0, 4),
    ],
)
def test_verdicts(verifier, task, response, status, passed, total):
    verdict = grade(verifier, task, response)
    found = (verdict.status, verdict.passed, verdict.total)
    assert found == (status, passed, total), verdict.feedback
    assert verdict.solved is (passed == total)
    if not verdict.solved:
        assert verdict.feedback in (HIDDEN_FEEDBACK, verdict.feedback)


FORGERIES = {
    "os._exit": "import os\nos._exit(0)",
    "skip": "import pytest\npytest.skip('no', allow_module_level=True)",
    "exit": "import pytest\npytest.exit('fine', returncode=0)",
    "always equal": "class Stack:\n  def __getattr__(self, n): return lambda *a: self\n"
    "  def __eq__(self, other): return True\nStackEmpty = BaseException",
    "patched pytest": "import _pytest.python\n"
    "_pytest.python.Function.runtest = lambda self: None\n",
    "patched reports": "import _pytest.reports, pytest\n"
    "pytest.TestReport.failed = property(lambda self: False)\n"
    "_pytest.reports.TestReport.outcome = 'passed'\n",
    "conftest": "open('conftest.py', 'w').write("
    "'def pytest_pyfunc_call(pyfuncitem): return True')\n",
    "other tests": "import os\nopen('test_0.py', 'w').write('def test_x(): pass')\n"
    "os.chmod('test_0.py', 0o400) if 0 else None\nos.rename('test_0.py', 'test_1.py')",
    "plugin": "import gc, pytest\nclass P:\n"
    "  def pytest_pyfunc_call(self, pyfuncitem): return True\n"
    "for o in gc.get_objects():\n"
    "  if type(o).__name__ == 'PytestPluginManager': o.register(P())",
}


@pytest.fixture(scope="module")
def forged(verifier):
    verdicts = []
    for number, source in enumerate(FORGERIES.values()):
        source += (
            "" if "StackEmpty" in source else "\nclass StackEmpty(Exception): pass"
        )
        source += "" if "class Stack:" in source else "\nclass Stack: pass"
        verdicts += verifier.verify(
            [(OBJECTS, source), (OBJECTS, f"{STACK}  # after {number}")]
        )
    return dict(zip(FORGERIES, verdicts[::2], strict=True)), verdicts[1::2]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_not_a_pass(forged, name):
    verdict = forged[0][name]
    assert not verdict.solved
    assert verdict.reward is not None


def test_neighbours_of_forgeries_pass(forged):
    assert all(verdict.solved for verdict in forged[1])


def test_feedback(verifier):
    task = module("shown", PLAIN.tests[0], visible_tests=PLAIN.tests)
    verdict = grade(verifier, task, "def add(a, b): return 4")
    assert verdict.feedback == (
        "Test failed: def test_ints():\n    assert add(1, 2) == 3\n"
        "AssertionError: assert 4 == 3\n +  where 4 = add(1, 2)"
    )
    verdict = grade(verifier, task, "Look:\n```\ndef add(a, b):\n    return a + c\n```")
    assert verdict.feedback == (
        "Test failed: def test_ints():\n    assert add(1, 2) == 3\n"
        "NameError: name 'c' is not defined\n  line 4, in add: return a + c"
    )
    objects = module("shown 2", OBJECTS.tests[0], visible_tests=OBJECTS.tests)
    verdict = grade(verifier, objects, STACK.replace("append(x)", "append(0)"))
    assert verdict.feedback.startswith("Test failed: def test_push(stack):")
    assert verdict.feedback.endswith("Expected: 3\nActual: 0")


def test_files_lie_beside_the_solution(verifier):
    source = """
from solution import load
from helpers.names import NAME
def test_load():
    assert load("data/x.txt") == NAME
"""
    files = {"data/x.txt": "seven", "helpers/names.py": "NAME = 'seven'"}
    metadata = {"test_framework": "pytest", "files": files}
    task = module("files", source, entry_point="load", metadata=metadata)
    assert grade(verifier, task, "def load(p): return open(p).read()").solved
    used = "from helpers.names import NAME\ndef load(p): return NAME"
    assert grade(verifier, task, used).solved
    assert not grade(verifier, task, "def load(p): return open('x').read()").solved


def test_modules_that_cannot_run_are_not_scored(verifier, monkeypatch):
    for source in ("import pytest", "def test(:", "x = 1\ndef check(): pass"):
        verdict = grade(verifier, module(source, source), ADD)
        assert (verdict.reward, verdict.status) == (None, "abstained")
    monkeypatch.setattr(packages, "has_pytest", lambda: False)
    verdict = grade(verifier, module("no pytest", PLAIN.tests[0]), ADD)
    assert (verdict.reward, verdict.status) == (None, "abstained")
    assert "pip install pytest" in verdict.feedback


def head(body, names="add"):
    return f"import pytest, sys\nfrom solution import {names}\n{body}\n"


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        (PLAIN.tests[0], False),
        (OBJECTS.tests[0], True),
        (head("def test(): assert add(1, 2).bit_length() == 2"), False),
        (head("def test():\n  x = add([1], [2])\n  x.append(3)\n  assert x"), False),
        (head("def test(): assert add(1, 2).real_part() == 2"), True),
        (head("def test():\n  x = add(1, 2)\n  assert x.head == 2"), True),
        (head("def test(): assert list(map(add, [1], [2])) == [3]"), True),
        (head("def test():\n  with pytest.raises(Bad): add(1)", "add, Bad"), True),
        (head("def test(capsys): add(1, 2)"), True),
        (head("def test(): sys.stdin = None; add(1, 2)"), True),
        ("import solution\ndef test(): assert solution.add(1, 2) == 3", True),
    ],
)
def test_which_modules_need_the_solution_beside_them(source, needed):
    assert one_jail(module("x", source)) is needed


def test_a_class_in_the_reference_or_the_prompt_needs_it():
    source = "from solution import make\ndef test(): assert make(1) == make(1)"
    assert not one_jail(module("x", source, entry_point="make"))
    for field in ("answer", "prompt"):
        task = module("x", source, entry_point="make", **{field: "class make:\n  ..."})
        assert one_jail(task)


def test_the_reference_says_whether_plain_data_is_enough(verifier):
    source = "from solution import f\ndef test(): assert list(f(2)) == [0, 1]"
    lazy = "def f(n): yield from range(n)"
    task = module("lazy", source, entry_point="f", answer=lazy)
    assert grade(verifier, task, lazy + "  # mine").solved
    assert not grade(verifier, task, "def f(n): yield 0").solved
    task = module("eager", source, entry_point="f", answer="def f(n): return [0, 1]")
    verdict = grade(verifier, task, lazy)
    assert (verdict.status, verdict.passed) == ("error", 0)


def test_files_that_leave_the_folder_are_not_written(verifier):
    for name in ("/etc/x", "a/../../x"):
        metadata = {"test_framework": "pytest", "files": {name: ""}}
        task = module(name, PLAIN.tests[0], metadata=metadata)
        verdict = grade(verifier, task, ADD)
        assert verdict.status == "abstained"
        assert "relative paths" in verdict.feedback


def test_installed_packages_are_there(verifier):
    source = "import numpy\nfrom solution import add\n"
    source += "def test(): assert add(1, 2) == numpy.int64(3)"
    response = "import numpy\ndef add(a, b): return int(numpy.add(a, b))"
    assert grade(verifier, module("numpy", source), response).solved
