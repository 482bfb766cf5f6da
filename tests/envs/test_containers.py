"""Containers and their processes: replaced when they fail, gone when it is over."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import Limits, wall
from rlvr_jax.tasks.records import Task

LIMITS = Limits(cpu_seconds=0.4, wall_seconds=2.5, memory_bytes=256 << 20)


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
