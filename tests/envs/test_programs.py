import pytest

from rlvr_jax import envs
from rlvr_jax.envs.programs import HIDDEN_FEEDBACK
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.tasks.records import Task

LINE = Task(
    id="line",
    kind="programs",
    prompt="",
    visible_tests=((4, 11), (5, 13)),
    tests=((4, 11), (5, 13), (0, 3), (-7, -11)),
    entry_point="f",
)
PLANE = Task(
    id="plane",
    kind="programs",
    prompt="",
    visible_tests=(((4, 2), 6),),
    tests=(((4, 2), 6), ((1, 1), 2)),
    entry_point="f",
    metadata={"parameters": ("x", "y")},
)
LIMITS = Limits(cpu_seconds=0.3, wall_seconds=3.0, memory_bytes=256 << 20)

# (task, response, status, passed, feedback)
CASES = [
    (LINE, "2*x+3", "passed", 4, "passed"),
    (LINE, " 2 * x + 3\n", "passed", 4, "passed"),
    (LINE, "def f(x):\n    return x + x + 3", "passed", 4, "passed"),
    (LINE, "```python\ndef f(n): return 2*n+3\n```", "passed", 4, "passed"),
    (LINE, "```\n2*x+3\n```", "passed", 4, "passed"),
    (LINE, "2.0*x+3", "passed", 4, "passed"),
    (LINE, "sum([x, x, 3])", "passed", 4, "passed"),
    (LINE, "math.floor(2*x+3)", "passed", 4, "passed"),
    (LINE, "x+7", "failed", 1, "x=5 gave 12, want 13"),
    (LINE, "x+5", "failed", 0, "x=4 gave 9, want 11"),
    (LINE, "11 if x==4 else 13", "failed", 2, HIDDEN_FEEDBACK),
    (LINE, "13-2*(x==4) if x>3 else 1/0", "error", 2, HIDDEN_FEEDBACK),
    (LINE, "1/0", "error", 0, "x=4 gave ZeroDivisionError, want 11"),
    (LINE, "1//(x-5) and 2*x+3", "error", 3, "x=5 gave ZeroDivisionError, want 13"),
    (LINE, "y", "error", 0, "x=4 gave NameError, want 11"),
    (LINE, "x +", "error", 0, "syntax error"),
    (LINE, "def f(x):\nreturn x", "error", 0, "syntax error"),
    (LINE, "y = 1", "error", 0, "x=4 gave NameError, want 11"),
    (LINE, "raise ValueError", "error", 0, "ValueError"),
    (LINE, "", "no_answer", 0, "no answer"),
    (LINE, " \n", "no_answer", 0, "no answer"),
    (LINE, "```\n```", "no_answer", 0, "no answer"),
    (LINE, "9**9**9", "timeout", 0, "x=4 gave timeout, want 11"),
    (LINE, "while 1: 0", "timeout", 0, "timeout"),
    (LINE, "[0]*(1<<40)", "memory", 0, "x=4 gave MemoryError, want 11"),
    (LINE, "print('x'*2000000)", "output_limit", 0, None),
    (LINE, "1" * 5000, "output_limit", 0, "too long"),
    (LINE, "'abc'", "failed", 0, "x=4 gave 'abc', want 11"),
    (LINE, "10**30", "failed", 0, "x=4 gave 10000000000..00000000000, want 11"),
    (LINE, "10**9999", "failed", 0, "x=4 gave a huge int, want 11"),
    (LINE, "[10**9999]", "failed", 0, "x=4 gave a huge list, want 11"),
    (LINE, "(i for i in [1])", "failed", 0, "x=4 gave generator, want 11"),
    (PLANE, "x+y", "passed", 2, "passed"),
    (PLANE, "x", "failed", 0, "x=4,y=2 gave 4, want 6"),
    (PLANE, "def f(a, b): return a+b", "passed", 2, "passed"),
    (PLANE, "def f(a): return a", "error", 0, "x=4,y=2 gave TypeError, want 6"),
]


@pytest.fixture(scope="module")
def verifier():
    with envs.make_verifier("programs", workers=2, limits=LIMITS) as verifier:
        yield verifier


@pytest.fixture(scope="module")
def verdicts(verifier):
    return verifier.verify([(task, response) for task, response, *_ in CASES])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: CASES[i][1][:20])
def test_verdicts(verdicts, number):
    task, _, status, passed, feedback = CASES[number]
    verdict = verdicts[number]
    assert (verdict.status, verdict.passed) == (status, passed)
    assert verdict.total == len(task.tests)
    assert verdict.reward == passed / len(task.tests)
    assert verdict.solved is (status == "passed")
    shown = len(task.visible_tests)
    hidden = verdict.feedback == HIDDEN_FEEDBACK
    assert verdict.visible_passed is (verdict.solved or hidden)
    assert shown <= passed or not hidden
    if feedback is not None:
        assert verdict.feedback == feedback


def test_a_bool_is_not_an_int(verifier):
    one = Task("one", "programs", "", visible_tests=((3, 1),), tests=((3, 1),))
    bad, good = verifier.verify([(one, "x == 3"), (one, "int(x == 3)")])
    assert (bad.status, bad.feedback) == ("failed", "x=3 gave True, want 1")
    assert good.solved


def test_no_tests_is_not_a_pass(verifier):
    (verdict,) = verifier.verify([(Task("none", "programs", ""), "x")])
    assert (verdict.reward, verdict.status) == (None, "abstained")


def test_the_expected_value_is_nowhere_in_the_process(verifier):
    # It is an int with a residue that no other int of the interpreter has.
    response = """
def f(x):
    import gc
    pool = [o for o in gc.get_objects() if type(o) in (tuple, list, dict)]
    pool = [o.values() if type(o) is dict else o for o in pool]
    big = {p for o in pool for p in o if type(p) is int and p % 1000003 == 17 != p}
    return (sorted(big) or [0])[0]
"""
    expected = 777 * 1000003 + 17
    task = Task("secret", "programs", "", tests=((1, expected),), entry_point="f")
    found, control = verifier.verify(
        [(task, response), (task, response + f"\nkept = [{expected}]")]
    )
    assert not found.solved
    assert control.solved


def test_processor_time_decides_not_elapsed_time():
    limits = Limits(cpu_seconds=0.2, wall_seconds=60.0)
    with envs.make_verifier("programs", workers=1, limits=limits) as verifier:
        (verdict,) = verifier.verify([(LINE, "9**9**9")])
        assert verdict.status == "timeout"
        # Sleeping costs elapsed time alone.
        nap = "def f(x):\n  import time\n  time.sleep(0.1)\n  return 2*x+3"
        assert verifier.verify([(LINE, nap)])[0].solved


def test_strange_frames_do_not_stop_the_verifier(verifier):
    source = """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
for fd in range(3, 64):
    for frame in FRAMES:
        try: os.write(fd, codec.frame(frame))
        except OSError: pass
def f(x): return 0
"""
    huge = '("load_error", 0, 10**5000, 1, 2),', '("loaded", 0), ("error", 10**5000),'
    for frames in (*huge, '("loaded", 0), ("opaque", 10**5000),'):
        task = Task(frames, "programs", "", tests=((1, 2),))
        verdict = verifier.verify([(task, source.replace("FRAMES", frames))])[0]
        assert (verdict.reward, verdict.solved) == (0.0, False)
