"""Runs the attack suite, as this user or as one without rights.

python -m tests.envs.suite        # prints the result as JSON
"""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import Limits, wall
from rlvr_jax.tasks.records import Task

ROOT = pathlib.Path(__file__).parents[2]
THEMES = (
    "forging",
    "reading",
    "exhaustion",
    "floods",
    "escape",
    "orphans",
    "encodings",
)
LIMITS = Limits(cpu_seconds=0.4, wall_seconds=2.5, memory_bytes=256 << 20)
TASK = Task(
    id="t",
    kind="code",
    prompt="",
    tests=("assert f(1) == 424243", "assert f(2) == [424244]"),
    visible_tests=("assert f(1) == 424243",),
    entry_point="f",
)
# What "write host" writes, where the container's own /tmp did not hide the host's.
HOST_FILE = pathlib.Path("/HOST_FILE")
PLAIN_USER = 12345


def good(number: int) -> str:
    """A program that passes; another text for each number: equal ones run once."""
    return f"def f(x): return x + 424242 if x == 1 else [x + 424242]  # {number}"


def _attacks() -> dict[str, tuple[str, str | None]]:
    found: dict[str, tuple[str, str | None]] = {}
    for theme in THEMES:
        module = importlib.import_module(f"tests.envs.attacks.{theme}")
        assert not found.keys() & module.ATTACKS.keys()
        found |= module.ATTACKS
    return found


ATTACKS = _attacks()


def run(workers: int = 4) -> dict:
    """Each attack with a good neighbour at the same time.

    Returns:
        "attacks": {name: [status, tests passed, reward]}, "neighbours": their statuses,
        "left": what is still there that was not there before.
    """
    before = traces()
    pairs = []
    for number, (source, _) in enumerate(ATTACKS.values()):
        pairs += [(TASK, good(number)), (TASK, source)]
    with envs.make_verifier("code", workers=workers, limits=LIMITS) as verifier:
        found = verifier.verify(pairs)
    attacks = zip(ATTACKS, found[1::2], strict=True)
    return {
        "attacks": {name: [v.status, v.passed, v.reward] for name, v in attacks},
        "neighbours": [verdict.status for verdict in found[0::2]],
        "left": sorted(traces() - before),
    }


def traces() -> set[str]:
    """Descriptors of this process, its children, control groups, and HOST_FILE."""
    found = {str(HOST_FILE)} if HOST_FILE.exists() else set()
    own = pathlib.Path("/proc/self")
    found |= {f"descriptor {os.readlink(p)}" for p in _links(own / "fd")}
    children = own / "task" / str(os.getpid()) / "children"
    if children.exists():
        found |= {f"process {pid}" for pid in children.read_text().split()}
    groups = pathlib.Path("/sys/fs/cgroup").rglob(f"rlvr-sandbox-{os.getpid()}-*")
    return found | {str(group) for group in groups}


def _links(folder: pathlib.Path) -> list[pathlib.Path]:
    # The listing's own descriptor is gone when it is looked at.
    return [path for path in folder.iterdir() if os.path.lexists(path)]


def run_as_plain_user() -> dict:
    """`run` in a process of a user without rights.

    Root lends it an interpreter that it can read: bubblewrap shows this one's folder at
    another place, and the user is changed behind it. Anybody else is that user already.
    """
    if os.getuid() != 0:
        return run()
    bwrap = wall.find_bwrap()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rlvr-plain-"))
    try:
        folder.chmod(0o755)
        python, project, packages = (folder / n for n in ("python", "src", "packages"))
        words = [bwrap, "--dev-bind", "/", "/", "--cap-add", "ALL"]
        for source, place in (
            (sys.base_prefix, python),
            (ROOT, project),
            (sysconfig.get_path("purelib"), packages),
        ):
            place.mkdir()
            words += ["--ro-bind", os.path.realpath(source), str(place)]
        executable = str(python / f"bin/python3.{sys.version_info.minor}")
        become = (
            "import os, sys; os.setgroups([]);"
            f" os.setgid({PLAIN_USER}); os.setuid({PLAIN_USER});"
            f" os.execv({executable!r}, [{executable!r}, '-m', 'tests.envs.suite'])"
        )
        done = subprocess.run(
            [*words, "--chdir", str(project), executable, "-c", become],
            env={
                "PATH": f"{os.path.dirname(bwrap)}:/usr/bin:/bin",
                "PYTHONPATH": f"{project}:{packages}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": "/tmp",
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        result = json.loads(done.stdout)
        assert result["user"] == PLAIN_USER
        return result
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    print(json.dumps({"user": os.getuid(), **run()}))
