"""Whole programs: standard input in, standard output out."""

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.code import HIDDEN_FEEDBACK
from rlvr_jax.envs.code.comparison import same_output
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.tasks.records import Task

LIMITS = Limits(cpu_seconds=0.5, wall_seconds=5.0, memory_bytes=256 << 20)
SUM = Task(
    id="sum",
    kind="code",
    prompt="",
    visible_tests=(("2\n1 2\n", "3\n"),),
    tests=(("2\n1 2\n", "3\n"), ("1\n424242\n", "424242\n"), ("0\n\n", "0\n")),
)
SILENT = Task(id="silent", kind="code", prompt="", tests=(("", ""),))
GOOD = "input()\nprint(sum(map(int, input().split())))"


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("code", workers=2, limits=LIMITS) as verifier:
        yield verifier


def grade(verifier, task, response):
    return verifier.verify([(task, response)])[0]


@pytest.mark.parametrize(
    "program",
    [
        GOOD,
        f"```python\n{GOOD}\n```",
        "import sys\nd = sys.stdin.read().split()\n"
        "sys.stdout.write(str(sum(map(int, d[1:]))))",
        "import sys\nd = sys.stdin.buffer.read().split()\n"
        "sys.stdout.buffer.write(b'%d' % sum(map(int, d[1:])))",
        "import os\nd = os.read(0, 99).split()\n"
        "os.write(1, str(sum(map(int, d[1:]))).encode())",
        "d = open(0).read().split()\nprint(sum(map(int, d[1:])), file=open(1, 'w'))",
        "import sys\ninput()\n"
        "for line in sys.stdin: print(sum(map(int, line.split())))",
        f"def main():\n  {GOOD.replace(chr(10), chr(10) + '  ')}\n"
        "if __name__ == '__main__': main()",
        f"import sys\n{GOOD}\nsys.exit()",
        f"import sys\n{GOOD}\nsys.exit(0)\nprint(1)",
        f"import os, sys\n{GOOD}\nsys.stdout.flush()\nos._exit(0)",
        f"import sys\n{GOOD}\nsys.stderr.write('debug')\nsys.stdin.close()",
        "import threading, sys\ndef main():\n  input()\n"
        "  print(sum(map(int, input().split())))\n"
        "threading.stack_size(1 << 26)\nthreading.Thread(target=main).start()",
        "import atexit, io, sys\nout = io.StringIO()\n"
        "atexit.register(lambda: sys.__stdout__.write(out.getvalue()))\n"
        "input()\nout.write(str(sum(map(int, input().split()))))",
        "input()\nx: List[int] = list(map(int, input().split()))\n"
        "print(functools.reduce(operator.add, x, 0))",
    ],
)
def test_ways_to_read_and_write(verifier, program):
    verdict = grade(verifier, SUM, program)
    assert (verdict.status, verdict.passed) == ("passed", 3), verdict.feedback


@pytest.mark.parametrize(
    ("task", "program", "status", "passed"),
    [
        (SUM, "print(3)", "failed", 1),
        (SUM, "pass", "failed", 0),
        (SUM, GOOD + "\n1 / 0", "error", 0),
        (SUM, GOOD + "\nimport sys\nsys.exit(3)", "error", 0),
        (SUM, GOOD + "\nraise SystemExit('bye')", "error", 0),
        (SUM, "```\ndef f(:\n```", "error", 0),
        (SUM, "The sum, of course.", "no_answer", 0),
        (SUM, "x = []\nwhile True: x.append(' ' * 10**7)", "memory", 0),
        (
            SUM,
            "input()\nif input() != '1 2':\n  while True: pass\nprint(3)",
            "timeout",
            1,
        ),
        (SUM, "while True: print('x' * 1000)", "output_limit", 0),
        (SUM, "while True: print('3\\n' * 999)", "output_limit", 0),
        (
            SUM,
            "import sys\nwhile True: sys.stderr.write('x' * 9999)",
            "output_limit",
            0,
        ),
        (SUM, "import os\nprint(3, flush=True)\nos.kill(os.getpid(), 9)", "error", 0),
        (SILENT, "pass", "passed", 1),
        (SILENT, "raise ValueError", "error", 0),
        (SILENT, "import os\nos._exit(1)", "error", 0),
        (SILENT, "print(1)", "failed", 0),
    ],
)
def test_verdicts(verifier, task, program, status, passed):
    verdict = grade(verifier, task, program)
    assert (verdict.status, verdict.passed) == (status, passed), verdict.feedback
    assert verdict.reward == passed / len(task.tests)
    assert verdict.solved is (passed == len(task.tests))


@pytest.mark.parametrize(
    ("program", "feedback"),
    [
        (
            "print(4)",
            "Test failed. Input:\n2\n1 2\nExpected output:\n3\nYour output:\n4",
        ),
        (
            "pass",
            "Test failed. Input:\n2\n1 2\nExpected output:\n3\nYour output:\n(nothing)",
        ),
        ("print(3)", HIDDEN_FEEDBACK),
        ("input()\nif input() != '1 2': 1 / 0\nprint(3)", HIDDEN_FEEDBACK),
        (
            "Here:\n```\nx = int(input())\nprint(x / 0)\n```",
            "Test failed. Input:\n2\n1 2\nZeroDivisionError: division by zero\n"
            "  line 4, in <module>: print(x / 0)",
        ),
        (
            "while True: pass",
            "Test failed. Input:\n2\n1 2\nYour code did not finish in time.",
        ),
        (
            "import os\nos._exit(7)",
            "Test failed. Input:\n2\n1 2\nYour program ended with exit code 7.",
        ),
        (
            "Here:\n```\nx = (\n```",
            "SyntaxError: '(' was never closed\n  line 3: x = (",
        ),
    ],
)
def test_feedback(verifier, program, feedback):
    assert grade(verifier, SUM, program).feedback == feedback


def test_long_streams_are_cut_in_the_feedback_and_whole_for_the_program(verifier):
    numbers = " ".join(map(str, range(100_000)))
    task = Task(
        "long", "code", "", tests=((numbers, numbers),), visible_tests=((numbers,) * 2,)
    )
    assert grade(verifier, task, "print(input())").solved
    verdict = grade(verifier, task, "print(input() + ' 1')")
    assert verdict.status == "failed"
    assert "Expected output:\n0 1 2 3" in verdict.feedback
    assert len(verdict.feedback) < 1000


def test_an_expected_output_over_the_cap_raises_it(verifier):
    task = Task("big", "code", "", tests=(("", "12345678\n" * 500_000),))
    assert grade(verifier, task, "print('12345678\\n' * 500_000)").solved


def test_forged_reports_change_nothing_but_the_feedback(verifier):
    forged = """
import os, sys
frame = sys._getframe()
while frame:
    job = frame.f_locals.get("job")
    if job:
        codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
        for report in (("passed",), ("done", 0), ("load_error", 0), 3, ()):
            os.write(1, job["nonce"] + codec.frame(report))
        assert "424242" not in repr(job) or "424242" in job["stdin"]
        assert "expected" not in job
    frame = frame.f_back
os._exit(0)
"""
    verdict = grade(verifier, SUM, forged)
    assert (verdict.reward, verdict.passed) == (0.0, 0)


def test_nothing_of_one_run_is_there_in_the_next(verifier):
    program = (
        "import os\nassert os.listdir('.') == []\nopen('left', 'w').write('x')\n" + GOOD
    )
    assert grade(verifier, SUM, program).solved


def test_files_of_the_task_lie_beside_the_program(verifier):
    task = Task(
        "files",
        "code",
        "",
        tests=(("", "7 8"),),
        metadata={"files": {"data/x.txt": "7", "extra.py": "Y = 8"}},
    )
    program = "import extra\nprint(open('data/x.txt').read(), extra.Y)"
    assert grade(verifier, task, program).solved


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ((("1", "2"), "assert f(1) == 2"), "all be source texts"),
        ((("1", 2),), "all pairs of texts"),
        ((("x" * (9 << 20), ""),), "standard input is too long"),
    ],
)
def test_tests_that_are_no_pairs_are_not_scored(verifier, tests, reason):
    verdict = grade(verifier, Task(reason, "code", "", tests=tests), "print(2)")
    assert (verdict.reward, verdict.status) == (None, "abstained")
    assert reason in verdict.feedback


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ("3\n", "3", True),
        ("3  \r\n4\r\n\r\n", "3\n4\n", True),
        ("\n3\n", "3", True),
        ("1  2", "1 2", True),
        ("1\n2", "1 2", False),
        ("1\n\n2", "1\n2", False),
        ("YES", "Yes", False),
        ("0.33333333", "0.3333333333", True),
        ("0.3333", "0.3333333333", False),
        ("1000000.5", "1000000.0", True),
        ("1e-3", "0.001", True),
        ("2", "2.0", True),
        ("2.0", "2", True),
        ("2.0000001", "2", False),
        ("02", "2", False),
        ("0101", "101", False),
        ("nan", "0.5", False),
        ("nan", "nan", True),
        ("inf", "1e999", False),
        ("1e999", "1.0", False),
        ("1" * 5000, "1.0", False),
        ("", "", True),
        ("", "0", False),
        ("\N{SNOWMAN}", "\N{SNOWMAN}", True),
    ],
)
def test_same_output(actual, expected, same):
    assert same_output(actual, expected) is same


def test_installed_packages_are_there_on_request(verifier):
    program = (
        "import numpy\ninput()\nprint(numpy.sum([int(x) for x in input().split()]))"
    )
    assert grade(verifier, SUM, program).status == "error"
    with envs.make_verifier("code", workers=1, packages=True) as packaged:
        assert grade(packaged, SUM, program).solved
        assert grade(packaged, SUM, GOOD).solved
