"""Control groups: memory and processes of a whole container, where the host permits."""

import contextlib
import itertools
import os
import pathlib
import shlex
import time

_MOUNT = pathlib.Path("/sys/fs/cgroup")
_PREFIX = "rlvr-sandbox-"
_REMOVE_SECONDS = 2.0
_numbers = itertools.count()


class Cgroup:
    """One group, made now. Raises OSError, saying why, where that is not permitted.

    Version 2 needs a folder of ours or above ours that may be written and passes the
    controllers on (systemd: `Delegate=yes`; or root); version 1 a writable folder of
    each controller.

    Args:
        memory_bytes: of all its processes together, swap not counted.
        processes: processes and threads.
    """

    def __init__(self, *, memory_bytes: int, processes: int) -> None:
        self.folders: list[pathlib.Path] = []
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            if (_MOUNT / "cgroup.controllers").exists():
                folder = self._make(_unified_parent() / name)
                _write(folder / "memory.max", memory_bytes)
                _write(folder / "pids.max", processes)
            else:
                folder = self._make(_legacy_parent("memory") / name)
                _write(folder / "memory.limit_in_bytes", memory_bytes)
                folder = self._make(_legacy_parent("pids") / name)
                _write(folder / "pids.max", processes)
        except OSError:
            self.remove()
            raise

    def command(self, words: list[str]) -> list[str]:
        """The command that joins the group and then becomes `words`."""
        joins = [
            f"echo $$ >{shlex.quote(str(f / 'cgroup.procs'))}" for f in self.folders
        ]
        script = " && ".join([*joins, 'exec "$@"'])
        return ["/bin/sh", "-c", script, "sh", *words]

    def remove(self) -> None:
        """Removes the group; its processes were killed before."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self.folders and time.monotonic() < deadline:
            for folder in list(self.folders):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    self.folders.remove(folder)
                except OSError:
                    time.sleep(0.01)  # one of them is still dying
                else:
                    self.folders.remove(folder)

    def _make(self, folder: pathlib.Path) -> pathlib.Path:
        _sweep(folder.parent)
        folder.mkdir()
        self.folders.append(folder)
        return folder


def _write(file: pathlib.Path, value: int) -> None:
    file.write_text(str(value))


def _own(controller: str) -> str:
    """Our path in a hierarchy, as /proc/self/cgroup says it."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    raise OSError(f"no hierarchy of {controller or 'version 2'} in /proc/self/cgroup")


def _legacy_parent(controller: str) -> pathlib.Path:
    own = _MOUNT / controller / _own(controller)
    # In a container the path is the host's, and what is mounted is our part of it.
    return own if own.is_dir() else _MOUNT / controller


def _unified_parent() -> pathlib.Path:
    own = _MOUNT / _own("")
    wanted = {"memory", "pids"}
    for folder in (own, own.parent):
        if _MOUNT not in (folder, *folder.parents):
            continue
        control = folder / "cgroup.subtree_control"
        if not wanted <= set(control.read_text().split()):
            # Refused where the folder has processes of its own: then its parent may.
            with contextlib.suppress(OSError):
                control.write_text("+memory +pids")
        if wanted <= set(control.read_text().split()) and os.access(folder, os.W_OK):
            return folder
    raise OSError(f"{own} may not be divided: memory and pids are not delegated")


def _sweep(parent: pathlib.Path) -> None:
    """Removes groups whose owner died without removing them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if not pathlib.Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
