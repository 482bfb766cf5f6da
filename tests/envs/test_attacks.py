"""Hostile programs: none passes, none escapes, none disturbs its neighbours."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import wall
from rlvr_jax.tasks.records import Task
from tests.envs import suite
from tests.envs.suite import LIMITS


def sandbox_processes():
    """{process: parent} of this machine's sandboxes, known by their command line."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                if b"rlvr_jax.envs.sandbox.zygote" in words:
                    found[int(entry.name)] = int(parent)
    return found


@pytest.fixture(scope="module", params=["as it is", "plain user"])
def outcome(request):
    """The suite's result: of this user, and of one without rights."""
    if request.param == "plain user":
        return suite.run_as_plain_user()
    return suite.run()


def test_there_are_enough_attacks():
    assert len(suite.ATTACKS) >= 60


def test_no_attack_is_solved(outcome):
    assert {
        name: v for name, v in outcome["attacks"].items() if v[1:] != [0, 0.0]
    } == {}


def test_attacks_end_as_they_should(outcome):
    found = {name: v[0] for name, v in outcome["attacks"].items()}
    wanted = {n: status for n, (_, status) in suite.ATTACKS.items() if status}
    assert {n: found[n] for n in wanted} == wanted
    # Whatever happened, it is a verdict about the program.
    assert not {"passed", "infrastructure", "abstained"} & set(found.values())


def test_neighbours_of_attacks_pass(outcome):
    assert outcome["neighbours"] == ["passed"] * len(suite.ATTACKS)


def test_nothing_is_left_on_the_host(outcome):
    assert outcome["left"] == []


def test_a_closed_verifier_leaves_no_process():
    with envs.make_verifier("programs", workers=2, limits=LIMITS) as verifier:
        task = Task("t", "programs", "", tests=((1, 1),))
        verifier.verify([(task, "x"), (task, "while 1: 0"), (task, "x+1-1")])
        outside = [cell.solution.process.pid for cell in verifier.sandbox.cells]
        family = family_of(outside)
        assert len(family) == 4
    assert not family & set(sandbox_processes())


def family_of(outside):
    """Bubblewrap's processes and all that descend from them."""
    found, family = sandbox_processes(), set(outside)
    while more := {pid for pid in found if found[pid] in family} - family:
        family |= more
    return family


def test_a_killed_container_is_replaced():
    with envs.make_verifier("programs", workers=1, limits=LIMITS) as verifier:
        task = Task("t", "programs", "", tests=((1, 1),))
        assert verifier.verify([(task, "x")])[0].solved
        process = verifier.sandbox.cells[0].solution.process
        (inside,) = family_of([process.pid]) - {process.pid}
        os.kill(inside, signal.SIGKILL)
        process.wait()
        assert verifier.verify([(task, "x**2")])[0].solved
        assert verifier.describe()["containers_replaced"] == 1


def test_a_stopped_container_is_killed():
    with envs.make_verifier("programs", workers=1, limits=LIMITS) as verifier:
        task = Task("t", "programs", "", tests=((1, 1),))
        assert verifier.verify([(task, "x")])[0].solved
        process = verifier.sandbox.cells[0].solution.process
        family = family_of([process.pid])
        for pid in family - {process.pid}:
            os.kill(pid, signal.SIGSTOP)
    assert not family & set(sandbox_processes())


def test_without_the_filter_the_namespace_still_holds(monkeypatch):
    monkeypatch.setattr(wall, "child_filter", lambda: b"")
    daemon = """
import os, time
def f(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            time.sleep(100)
    return 1
"""
    bomb = "import os\ndef f(x):\n while True: os.fork()"
    task = Task("t", "programs", "", tests=((1, 1),))
    with envs.make_verifier("programs", workers=1, limits=LIMITS) as verifier:
        assert verifier.describe()["sandbox"]["layers"]["seccomp"] is False
        outside = verifier.sandbox.cells[0].solution
        verdicts = verifier.verify([(task, daemon), (task, bomb), (task, "x")])
        # Nothing but bubblewrap and the warm interpreter is left.
        assert len(family_of([outside.process.pid])) == 2
        assert verifier.describe()["containers_replaced"] == 2
    assert [verdict.solved for verdict in verdicts] == [True, False, True]


def test_nothing_survives_its_owner():
    source = """
import os, signal
from rlvr_jax import envs
from rlvr_jax.tasks.records import Task
verifier = envs.make_verifier("programs", workers=1)
verifier.verify([(Task("t", "programs", "", tests=((1, 1),)), "x")])
print(verifier.sandbox.cells[0].solution.process.pid, flush=True)
input()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    family = family_of([int(owner.stdout.readline())])
    assert len(family) == 2
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 10
    while family & set(sandbox_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not family & set(sandbox_processes())


WRITES = """
import builtins, os, sys, threading, codecs
def f(x):
    for name in ("/tmp/left", "/tmp/.left", "left", "/dev/left", "/python/left"):
        try: open(name, "w").write("left")
        except OSError: pass
    try: os.makedirs("/tmp/a/left")
    except OSError: pass
    os.environ["LEFT"] = builtins.LEFT = sys.LEFT = threading.LEFT = "left"
    sys.modules["left"] = sys
    sys.path.insert(0, "left")
    sys.setrecursionlimit(77)
    codecs.LEFT = os.umask(0o777)
    os.chdir("/")
    return 0
"""
READS = """
import builtins, codecs, os, sys, threading
def f(x):
    found = [p for p, d, n in os.walk("/tmp") if d + n]
    found += [n for n in ("/dev/left", "/python/left") if os.path.exists(n)]
    found += [k for k in os.environ if "LEFT" in k]
    found += [m for m in (builtins, sys, threading, codecs) if hasattr(m, "LEFT")]
    found += [m for m in sys.modules if m == "left"]
    old = os.umask(0)
    if (sys.getrecursionlimit(), "left" in sys.path, old) != (1000, False, 0o022):
        found.append((sys.getrecursionlimit(), old))
    if os.getcwd() != "/tmp": found.append(os.getcwd())
    return [str(one) for one in found]
"""


def test_nothing_that_one_program_wrote_is_visible_to_the_next():
    task = Task("s", "code", "", tests=("assert f(1) == []",), entry_point="f")
    sources = [WRITES, READS] * 3
    pairs = [(task, f"{source}\n# {i}") for i, source in enumerate(sources)]
    with envs.make_verifier("code", workers=1, limits=LIMITS) as verifier:
        verdicts = verifier.verify([(task, "def f(x): return []"), *pairs])
        # The same container all along: what hides one from the other is the fork.
        assert verifier.describe()["containers_replaced"] == 0
    statuses = [verdict.status for verdict in verdicts]
    assert statuses == ["passed", *["failed", "passed"] * 3], verdicts[2].feedback


def test_concurrency_changes_no_verdict():
    # Those that end by a limit take seconds each: `benchmarks/leaks.py` has them all.
    quick = [n for n, (_, status) in suite.ATTACKS.items() if status != "timeout"][::6]
    pairs = []
    for number, name in enumerate(quick):
        pairs += [
            (suite.TASK, suite.ATTACKS[name][0]),
            (suite.TASK, suite.good(number)),
        ]
    found = []
    for workers in (1, 16):
        with envs.make_verifier("code", workers=workers, limits=LIMITS) as verifier:
            found.append(verifier.verify(pairs))
    for (_, source), one, other in zip(pairs, *found, strict=True):
        assert one == other, source
