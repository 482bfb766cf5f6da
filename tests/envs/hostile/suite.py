"""Grades the hostile programs beside good ones, and looks at what is left afterwards.

    python -m tests.envs.hostile.suite

prints one JSON object: verdicts by name, those of the neighbours, and what was left.
"""

import ctypes
import json
import os
import pathlib
import sys
import tempfile
import time

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.envs.verdict import Verdict
from rlvr_jax.tasks.records import Task
from tests.envs.hostile import (
    encoding,
    escape,
    exhaustion,
    floods,
    forging,
    orphans,
    reading,
    traces,
    whole_programs,
)
from tests.envs.hostile.attack import STREAM, TASK, Attack

THEMES = {
    "escape": escape.ATTACKS,
    "exhaustion": exhaustion.ATTACKS,
    "forging": forging.ATTACKS,
    "reading": reading.ATTACKS,
    "floods": floods.ATTACKS,
    "orphans": orphans.ATTACKS,
    "encoding": encoding.ATTACKS,
    "traces": traces.ATTACKS,
    "whole programs": whole_programs.ATTACKS,
}
LIMITS = Limits(cpu_seconds=0.3, wall_seconds=5.0, memory_bytes=256 << 20)
RIGHT = "def f(x): return x + 424242 if x == 1 else [x + 424242]"
# Honest programs at work beside the hostile ones, and the verdict each must get.
NEIGHBOURS = (
    (RIGHT, "passed", 2),
    (f"{RIGHT}\nprint('x' * 200_000)", "passed", 2),
    (f"{RIGHT}\nkept = bytearray(60 << 20)", "passed", 2),
    (f"{RIGHT}\nopen('notes', 'w').write('x' * 100_000)", "passed", 2),
    (f"{RIGHT}\nfor _ in range(500_000): pass", "passed", 2),
    (f"{RIGHT}\nimport json, re, random, decimal, datetime", "passed", 2),
    ("def f(x): return 424243", "failed", 1),
    ("def f(x): return 1 / 0", "error", 0),
    ("def f(x) return 5", "error", 0),
)
PR_SET_CHILD_SUBREAPER = 36


def pair(attack: Attack, theme: str, salt: str = "") -> tuple[Task, str]:
    """What the verifier is given; the salt makes equal programs different ones."""
    task = STREAM if theme == "whole programs" else TASK
    return task, f"{attack.source}\n# {salt}" if salt else attack.source


def all_attacks() -> list[tuple[str, Attack]]:
    """(theme, attack) of the whole suite."""
    return [(theme, attack) for theme, found in THEMES.items() for attack in found]


def neighbour(number: int) -> tuple[tuple[Task, str], tuple[str, int]]:
    """A good program, different for each number, and its (status, tests passed)."""
    source, status, passed = NEIGHBOURS[number % len(NEIGHBOURS)]
    return (TASK, f"```python\n{source}\n# {number}\n```"), (status, passed)


def grade(workers: int) -> dict:
    """Grades every attack, each beside a neighbour."""
    attacks = all_attacks()
    pairs, expected = [], []
    for number, (theme, attack) in enumerate(attacks):
        good, verdict = neighbour(number)
        pairs += [good, pair(attack, theme)]
        expected.append(verdict)
    with envs.make_verifier("code", workers=workers, limits=LIMITS) as verifier:
        verdicts = verifier.verify(pairs)
        described = verifier.describe()
    found = {a.name: _row(v) for (_, a), v in zip(attacks, verdicts[1::2], strict=True)}
    wrong = [
        [NEIGHBOURS[i % len(NEIGHBOURS)][0], wanted, [got.status, got.passed]]
        for i, (wanted, got) in enumerate(zip(expected, verdicts[::2], strict=True))
        if (got.status, got.passed) != wanted
    ]
    return {"attacks": found, "neighbours": wrong, "described": described}


def spy() -> list:
    """Verdicts of a program that looks for traces, after each that leaves some."""
    rows = []
    with envs.make_verifier("code", workers=1, limits=LIMITS) as verifier:
        for number, attack in enumerate(traces.ATTACKS):
            verifier.verify([pair(attack, "traces")])
            (verdict,) = verifier.verify([(TASK, f"{traces.SPY}\n# {number}")])
            rows.append([attack.name, verdict.status, verdict.feedback])
        # In one program with what it looks for, it finds it: it is able to fail.
        both = f"{traces.ATTACKS[0].source}\nleave = f\n{traces.SPY}\nleave(1)"
        (verdict,) = verifier.verify([(TASK, both)])
        rows.append(["finds", verdict.status, verdict.feedback])
        replaced = verifier.describe()["containers_replaced"]
    return [rows, replaced]


def _row(verdict: Verdict) -> dict:
    text = verdict.feedback
    return {
        "status": verdict.status,
        "reward": verdict.reward,
        "solved": verdict.solved,
        "passed": verdict.passed,
        "feedback": text.encode("utf-8", "backslashreplace").decode(),
        "showable": not any("\ud800" <= letter <= "\udfff" for letter in text),
    }


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant that loses its own."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def remains() -> dict:
    """What the process could leave: descendants, descriptors, files, kernel objects."""
    children = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        children += (task / "children").read_text().split()
    folders = [tempfile.gettempdir(), "/dev/shm"]
    ours = f"rlvr-sandbox-{os.getpid()}-"
    groups = [
        p for p in pathlib.Path("/sys/fs/cgroup").glob(f"**/{ours}*") if p.is_dir()
    ]
    tables = [pathlib.Path(f"/proc/sysvipc/{name}") for name in ("shm", "sem", "msg")]
    return {
        "processes": len(children),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "files": sorted(n for f in folders if os.path.isdir(f) for n in os.listdir(f)),
        "groups": [str(path) for path in groups],
        "ipc": sum(len(t.read_text().splitlines()) - 1 for t in tables if t.exists()),
        "threads": len(os.listdir("/proc/self/task")),
    }


def main() -> None:
    adopt_orphans()
    before = remains()
    start = time.monotonic()
    result = {"uid": os.getuid(), **grade(workers=8), "spies": spy()}
    # Threads of a closed pool may need a moment more.
    time.sleep(0.2)
    result |= {"before": before, "after": remains()}
    result["seconds"] = time.monotonic() - start
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
