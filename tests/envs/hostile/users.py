"""Runs a module of the tests as root or as a plain user, whoever runs the tests."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from rlvr_jax.envs.sandbox import wall

ROOT = pathlib.Path(__file__).parents[3]
USERS = ("root", "nobody") if os.getuid() == 0 else ("own",)
_NOBODY = "65534"
# Exists everywhere; becomes the plain user's folder for temporary files.
_SCRATCH = "/mnt"


def run_module(module: str, *arguments: str, user: str, timeout: float = 600) -> dict:
    """The JSON that `python -m module` prints, run as one of USERS."""
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="rlvr-suite-") as folder:
        environment["TMPDIR"] = folder
        if user == "nobody":
            command = as_nobody(command)
            environment |= {"TMPDIR": _SCRATCH, "HOME": _SCRATCH}
        done = subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    if done.returncode:
        raise RuntimeError(f"{module} as {user} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def as_nobody(command: list[str]) -> list[str]:
    """The command that root runs to become nobody before it runs `command`.

    An interpreter or a checkout in a closed folder (a home) is shown to nobody in a
    mount namespace of its own.
    """
    words = [str(wall.find_bwrap()), "--cap-add", "ALL", "--dev-bind", "/", "/"]
    words += ["--perms", "1777", "--tmpfs", _SCRATCH]
    needed = [os.path.realpath(p) for p in (sys.base_prefix, sys.prefix, ROOT)]
    closed = {path: _closed_ancestor(path) for path in sorted(needed)}
    for folder in sorted({folder for folder in closed.values() if folder}):
        words += ["--perms", "0755", "--tmpfs", folder]
    for path, folder in closed.items():
        if folder:
            # Parents that bubblewrap makes by itself are closed to other users.
            for parent in reversed(pathlib.Path(path).relative_to(folder).parents):
                if str(parent) != ".":
                    words += ["--perms", "0755", "--dir", f"{folder}/{parent}"]
            words += ["--ro-bind", path, path]
    words += ["--chdir", str(ROOT), "setpriv", f"--reuid={_NOBODY}"]
    return [*words, f"--regid={_NOBODY}", "--clear-groups", *command]


def _closed_ancestor(path: str) -> str:
    """The topmost folder above a path that others may not pass, "" if there is none."""
    for parent in reversed(pathlib.Path(path).parents):
        if not parent.stat().st_mode & 0o001:
            return str(parent)
    return ""
