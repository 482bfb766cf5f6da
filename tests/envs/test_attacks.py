"""Hostile programs: none passes, none escapes, none disturbs its neighbours."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import Limits, wall
from rlvr_jax.tasks.records import Task

LIMITS = Limits(cpu_seconds=0.4, wall_seconds=2.5, memory_bytes=256 << 20)
TASK = Task(
    id="t",
    kind="code",
    prompt="",
    tests=("assert f(1) == 424243", "assert f(2) == [424244]"),
    visible_tests=("assert f(1) == 424243",),
    entry_point="f",
)
GOOD = "def f(x): return x + 424242 if x == 1 else [x + 424242]"
HOST_FILE = pathlib.Path(tempfile.gettempdir()) / f"rlvr-host-{os.getpid()}"

ATTACKS = {
    # early ends
    "sys.exit": "import sys\nsys.exit(0)",
    "os._exit": "import os\ndef f(x): os._exit(0)",
    "quit": "def f(x): raise SystemExit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 0",
    # forged results
    "always equal": """
class A(int):
    def __eq__(self, other): return True
    __hash__ = None
def f(x): return A(5)
""",
    "prints a verdict": """
import os
def f(x):
    for fd in range(64):
        try: os.write(fd, b"passed" * 50)
        except OSError: pass
    return 0
""",
    "forged frames": """
import os, sys
codec = sys.modules["rlvr_jax.envs.sandbox.codec"]
def f(x):
    for fd in range(64):
        for frame in (("test", 0, True, {}), ("test", 1, True, {}), ("done",)):
            try: os.write(fd, codec.frame(frame))
            except OSError: pass
    os._exit(0)
""",
    "frame walk": """
import gc, sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, dict) and "tests" in value: return value["tests"]
        frame = frame.f_back
    return [o for o in gc.get_objects() if isinstance(o, str) and "424243" in o]
""",
    "patched harness": """
import builtins, json, os, sys
child = sys.modules["rlvr_jax.envs.sandbox.child"]
child.call = child._frame = lambda *a: b""
json.dumps = lambda *a: "passed"
builtins.isinstance = lambda *a: True
os.write = lambda fd, data: len(data)
def f(x): return 0
""",
    "reads the parent": """
def f(x):
    for pid in (1, "self"):
        try: return open(f"/proc/{pid}/mem", "rb").read(10)
        except OSError: pass
    return 0
""",
    # endless or greedy
    "bare except loop": """
def f(x):
    while True:
        try:
            while True: pass
        except: pass
""",
    "sleep": "import time\ndef f(x): time.sleep(1000)",
    "big power": "def f(x): return 9 ** 9 ** 9",
    "memory": "def f(x):\n a = []\n while True: a.append(' ' * 10_000_000)",
    "fork bomb": "import os\ndef f(x):\n while True: os.fork()",
    "threads": """
import threading, time
def f(x):
    for _ in range(10_000): threading.Thread(target=time.sleep, args=(99,)).start()
""",
    "disk": """
def f(x):
    for i in range(1000):
        with open(f"/tmp/{i}", "wb") as file: file.write(b"x" * 4_000_000)
""",
    "output": "def f(x):\n while True: print('x' * 100_000)",
    "result flood": "def f(x): return 'x' * 50_000_000",
    "frame flood": """
import os, struct
while True:
    for fd in range(3, 64):
        try: os.write(fd, struct.pack("<I", 65536) + b"x" * 65536)
        except OSError: pass
""",
    "closed descriptors": "import os\nos.closerange(0, 256)\ndef f(x): return 0",
    "huge frame": """
import os
for fd in range(3, 64):
    try: os.write(fd, b"\\xff" * 4096)
    except OSError: pass
def f(x): return 0
""",
    "stack": "def f(x): return f(x)",
    "crash": "import ctypes\ndef f(x): return ctypes.string_at(1)",
    "signals": """
import os, signal
for s in range(1, 32):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
""",
    # the host
    "kill": "import os\ndef f(x):\n os.kill(1, 9)\n os.kill(-1, 9)",
    "exec": "import os\ndef f(x): os.execv('/python/bin/python3', ['python3'])",
    "socket": "import socket\ndef f(x): socket.socket()",
    "host files": "def f(x): return open('/etc/passwd').read()",
    "write host": f"def f(x):\n open({str(HOST_FILE)!r}, 'w').write('x')\n return 0",
    "write system": "import os\ndef f(x): open(os.__file__, 'a')",
    "ptrace": "import ctypes\ndef f(x): return ctypes.CDLL(None).ptrace(16, 1, 0, 0)",
}
EXPECTED = {
    "bare except loop": "timeout",
    "sleep": "timeout",
    "big power": "timeout",
    "signals": "timeout",
    "memory": "memory",
    "output": "output_limit",
    "frame flood": "error",
    "huge frame": "error",
    "socket": "error",
    "exec": "error",
    "fork bomb": "error",
    "kill": "error",
    "host files": "error",
    "write system": "error",
    "threads": "error",
    "disk": "error",
    "os._exit": "error",
    "always equal": "failed",
    "frame walk": "failed",
}


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


@pytest.fixture(scope="module")
def verdicts():
    pairs = []
    for number, source in enumerate(ATTACKS.values()):
        # A distinct text each time: equal pairs would be graded once.
        pairs += [(TASK, f"{GOOD}  # {number}"), (TASK, source)]
    with envs.make_verifier("code", workers=4, limits=LIMITS) as verifier:
        found = verifier.verify(pairs)
    return found[0::2], dict(zip(ATTACKS, found[1::2], strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_not_solved(verdicts, name):
    verdict = verdicts[1][name]
    assert not verdict.solved
    assert verdict.passed == 0
    assert verdict.reward == 0.0
    if name in EXPECTED:
        assert verdict.status == EXPECTED[name]


def test_neighbours_of_attacks_pass(verdicts):
    assert [verdict.status for verdict in verdicts[0]] == ["passed"] * len(ATTACKS)


def test_nothing_reached_the_host(verdicts):
    assert not HOST_FILE.exists()


def test_a_closed_verifier_leaves_no_process(verdicts):
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
        assert verifier.describe()["sandbox"]["seccomp"] is False
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
