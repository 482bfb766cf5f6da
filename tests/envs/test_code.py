import pytest

from rlvr_jax import envs
from rlvr_jax.envs.code import HIDDEN_FEEDBACK, NO_CODE_FEEDBACK, PASSED_FEEDBACK
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.tasks.records import Task

ADD = Task(
    id="add",
    kind="code",
    prompt="",
    visible_tests=("assert add(1, 2) == 3",),
    tests=(
        "assert add(1, 2) == 3",
        "assert add([1], [2]) == [1, 2]",
        "assert add('a', 'b') == 'ab'",
    ),
    entry_point="add",
)
CHECK = Task(
    id="check",
    kind="code",
    prompt="",
    tests=(
        "METADATA = {}\n"
        "def check(candidate):\n"
        "    assert True, 'a free one'\n"
        "    for i in range(3):\n"
        "        assert candidate(i) == 2 * i\n"
        "    assert abs(candidate(0.5) - 1) < 1e-6, 'floats'\n"
        "    assert candidate(10) == 20\n",
    ),
    entry_point="double",
)
MUTATE = Task(
    id="mutate",
    kind="code",
    prompt="",
    tests=("values = [3, 1, 2]\norder(values)\nassert values == [1, 2, 3]",),
    entry_point="order",
)
SETUP = Task(
    id="setup",
    kind="code",
    prompt="",
    setup="def near(a, b): return abs(a - b) < 0.1\nLIMIT = 0 + half(8)",
    tests=("assert near(half(1), 0.5)", "assert LIMIT == 4"),
    entry_point="half",
)
RAISES = Task(
    id="raises",
    kind="code",
    prompt="",
    tests=(
        "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    assert False",
        "assert f(1) == 1",
    ),
    entry_point="f",
)
LIMITS = Limits(cpu_seconds=0.5, wall_seconds=5.0)
GOOD = "def add(a, b):\n    return a + b"


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("code", workers=2, limits=LIMITS) as verifier:
        yield verifier


def grade(verifier, task, response):
    return verifier.verify([(task, response)])[0]


@pytest.mark.parametrize(
    ("task", "response", "status", "passed", "total"),
    [
        (ADD, GOOD, "passed", 3, 3),
        (ADD, f"Sure:\n```python\n{GOOD}\n```\nDone.", "passed", 3, 3),
        (ADD, f"```py\n{GOOD}\n```\n```\nprint(add(1, 1))\n```", "passed", 3, 3),
        (ADD, f"~~~\n{GOOD}", "passed", 3, 3),
        (ADD, "# import os\n" + GOOD, "passed", 3, 3),
        (ADD, "add = lambda a, b: a + b", "passed", 3, 3),
        (ADD, "def add(a: Any, b: Any) -> List[int]: return a + b", "passed", 3, 3),
        (ADD, "def add(a, b): print('x' * 200_000); return a + b", "passed", 3, 3),
        (ADD, GOOD + "\nif __name__ == '__main__': 1 / 0", "passed", 3, 3),
        (ADD, "def add(a, b): return 3", "failed", 1, 3),
        (ADD, "def add(a, b): return a", "failed", 0, 3),
        (ADD, "def add(a): return a", "error", 0, 3),
        (ADD, "def sub(a, b): return a - b", "error", 0, 3),
        (ADD, "```\ndef add(a, b) return a\n```", "error", 0, 3),
        (ADD, "The sum is what you want.", "no_answer", 0, 3),
        (ADD, "raise SystemExit(0)", "error", 0, 3),
        (ADD, "def add(a, b): raise SystemExit", "error", 0, 3),
        (ADD, "", "no_answer", 0, 3),
        (ADD, "```\n\n```", "no_answer", 0, 3),
        (CHECK, "def double(x): return x + x", "passed", 3, 3),
        (CHECK, "def double(x): return 2 * min(x, 5)", "failed", 2, 3),
        (CHECK, "def double(x): return 2 * max(x, 1)", "failed", 1, 3),
        (CHECK, "def double(x): return 2 * int(x)", "failed", 2, 3),
        (CHECK, "def double(x):\n  while x > 9: pass\n  return 2 * x", "timeout", 2, 3),
        (MUTATE, "def order(values): values.sort()", "passed", 1, 1),
        (MUTATE, "def order(values): return sorted(values)", "failed", 0, 1),
        (SETUP, "def half(x): return x / 2", "passed", 2, 2),
        (SETUP, "def half(x): return x // 2", "failed", 1, 2),
        (SETUP, "def half(x): return 1 / 0", "error", 0, 2),
        (SETUP, "def half(x): return None", "error", 0, 2),
        (RAISES, "def f(x):\n  if x < 0: raise ValueError\n  return x", "passed", 2, 2),
        (RAISES, "def f(x): return x", "failed", 1, 2),
    ],
)
def test_verdicts(verifier, task, response, status, passed, total):
    verdict = grade(verifier, task, response)
    assert (verdict.status, verdict.passed, verdict.total) == (status, passed, total)
    assert verdict.reward == passed / total
    assert verdict.solved is (passed == total)


@pytest.mark.parametrize(
    ("response", "feedback"),
    [
        (GOOD, PASSED_FEEDBACK),
        ("", NO_CODE_FEEDBACK),
        ("def add(a, b): return 3", HIDDEN_FEEDBACK),
        ("def add(a, b): return 3 if a == 1 else 1 / 0", HIDDEN_FEEDBACK),
        (
            "def add(a, b): return 4",
            "Test failed: assert add(1, 2) == 3\nExpected: 3\nActual: 4",
        ),
        (
            "Here:\n```\ndef add(a, b):\n    c = a - b\n    return inner(c)\n"
            "def inner(c):\n    return c / 0\n```",
            "Test failed: assert add(1, 2) == 3\nZeroDivisionError: division by zero\n"
            "  line 5, in add: return inner(c)\n  line 7, in inner: return c / 0",
        ),
        (
            "Here:\n```\nx = 1\ndef add(a, b)\n```",
            "SyntaxError: expected ':'\n  line 4: def add(a, b)",
        ),
        (
            "def add(a, b): return object()",
            "Test failed: assert add(1, 2) == 3\n"
            "TypeError: the answer is a object, not plain data",
        ),
        (
            "def add(a, b): raise ValueError(object())",
            "Test failed: assert add(1, 2) == 3\nValueError: <object object at 0x...>\n"
            "  line 1, in add: def add(a, b): raise ValueError(object())",
        ),
        (
            "def add(a, b):\n  while True: pass",
            "Test failed: assert add(1, 2) == 3\nYour code did not finish in time.",
        ),
    ],
)
def test_feedback(verifier, response, feedback):
    assert grade(verifier, ADD, response).feedback == feedback


def test_feedback_shows_no_hidden_test(verifier):
    secret = "assert f(123456) == 654321"
    task = Task("s", "code", "", tests=(secret,), entry_point="f")
    for body in ("return x", "return 1 / 0", "raise ValueError(x)"):
        verdict = grade(verifier, task, f"def f(x): {body}")
        assert verdict.feedback == HIDDEN_FEEDBACK


def test_long_values_are_cut(verifier):
    verdict = grade(verifier, ADD, "def add(a, b): return list(range(10_000))")
    assert "Actual: [0, 1, 2" in verdict.feedback
    assert verdict.feedback.endswith("9998, 9999]")
    assert len(verdict.feedback) < 500


@pytest.mark.parametrize(
    "tests",
    [
        (),
        ("assert f(1) ==",),
        ("assert f(1) == unheard(",),
    ],
)
def test_tests_that_cannot_run_are_not_scored(verifier, tests):
    task = Task(f"abstain-{tests}", "code", "", tests=tests, entry_point="f")
    response = "class Node:\n  def __init__(self, x): self.x = x\ndef f(x): return 1"
    verdict = grade(verifier, task, response)
    assert (verdict.reward, verdict.status) == (None, "abstained")


def test_a_task_without_an_entry_point(verifier):
    task = Task("bare", "code", "", tests=("assert f(1) == 1",))
    assert grade(verifier, task, "def f(x): return x").solved
    assert grade(verifier, task, "def f(x): return f").reward == 0.0
    check = Task("bare check", "code", "", tests=CHECK.tests)
    assert grade(verifier, check, "def double(x): return 2 * x").status == "abstained"


def test_no_solution_can_make_its_tests_unscorable(verifier):
    for body in ("return object()", "return lambda: 0", "raise NameError", "exit()"):
        verdict = grade(verifier, SETUP, f"def half(x): {body}")
        assert (verdict.reward, verdict.status) == (0.0, "error")


def test_preamble_is_there_for_both_sides(verifier):
    task = Task(
        id="preamble",
        kind="code",
        prompt="",
        tests=("assert shift(f('a')) == 'c'",),
        entry_point="f",
        metadata={"preamble": "def shift(s): return chr(ord(s) + 1)"},
    )
    assert grade(verifier, task, "def f(s): return shift(s)").solved
    # The tests use their own helper, not the one that the solution defines.
    forged = "def shift(s): return 'c'\ndef f(s): return s"
    assert grade(verifier, task, forged).status == "failed"


def test_a_response_over_the_cap_is_not_run():
    with envs.make_verifier("code", workers=1, max_characters=10) as verifier:
        assert grade(verifier, ADD, GOOD).status == "output_limit"


METHOD = Task(
    id="method",
    kind="code",
    prompt="",
    tests=("assert push(1) == [1]", "assert push(x=2) == [2]"),
    visible_tests=("assert push(1) == [1]",),
    entry_point="Solution.push",
)


@pytest.mark.parametrize(
    ("response", "status", "passed"),
    [
        (
            "class Solution:\n  def __init__(self): self.seen = []\n"
            "  def push(self, x: int) -> List[int]:\n"
            "    self.seen.append(x)\n    return self.seen",
            "passed",
            2,
        ),
        # A fresh instance each time, but one process: this one remembers.
        (
            "class Solution:\n  seen = []\n"
            "  def push(self, x):\n    self.seen.append(x)\n    return self.seen",
            "failed",
            1,
        ),
        ("class Solution:\n  def push(self, y): return [1]", "error", 1),
        ("class Solution:\n  def pop(self, x): return [x]", "error", 0),
        ("def push(x): return [x]", "error", 0),
        (
            "```\nclass Solution:\n  def push(self, x): return [x]\n```\nTry it:\n"
            "```\n# a longer demonstration of it\nprint(Solution().push(1), 'fine')\n"
            "print(Solution().push(2), 'fine as well')\n```",
            "passed",
            2,
        ),
    ],
)
def test_methods(verifier, response, status, passed):
    verdict = grade(verifier, METHOD, response)
    assert (verdict.status, verdict.passed, verdict.total) == (status, passed, 2)


def test_feedback_of_methods(verifier):
    verdict = grade(verifier, METHOD, "def push(x): return [x]")
    assert verdict.feedback == (
        "Test failed: assert push(1) == [1]\nNameError: name 'Solution' is not defined"
    )


def test_an_error_of_the_solution_is_of_its_built_in_base(verifier):
    source = "try:\n    f(-1)\nexcept LookupError:\n    assert f(1) == 1"
    task = Task("base", "code", "", tests=(source,), entry_point="f")
    body = "def f(x):\n  if x < 0: raise Own(x)\n  return x"
    assert grade(verifier, task, f"class Own(KeyError): pass\n{body}").solved
    assert not grade(verifier, task, f"class Own(ValueError): pass\n{body}").solved


def test_tests_without_python_around_them_are_not_scored(verifier):
    for field in ({"setup": "x ="}, {"metadata": {"preamble": "x ="}}):
        task = Task(**vars(ADD) | {"id": str(field)} | field)
        verdict = grade(verifier, task, GOOD)
        assert (verdict.reward, verdict.status) == (None, "abstained")
        assert "cannot be run" in verdict.feedback
