"""The warm interpreter inside the wall: forks one child per program.

Single-threaded, process 1 of its namespace, and never runs job content itself. It
talks to the controller over stdin and stdout in packets of 1 byte kind, 4 bytes
length, body: J a job, D bytes between controller and child, K kill the child, E the
end of the job, R ready.
"""

import ctypes
import gc
import importlib
import os
import random
import resource
import signal
import struct
import sys

from rlvr_jax.envs.sandbox import child, codec, program, tester, together, trial
from rlvr_jax.envs.sandbox.watch import Watch, send

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

_MODES = {
    "modules": tester.run_modules,
    "program": program.run_program,
    "solution": child.run_solution,
    "tests": tester.run_tests,
    "together": together.run_together,
    "trial": trial.run_trial,
}


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class Zygote:
    """State of the warm interpreter.

    Args:
        setup: decoded settings: "uid" (None or the user to become), "filter" (BPF
            program for children, b"" for none), "scratch" (its writable folder),
            "secret" (a file of the host, for the trials at the start; "" for none).
    """

    def __init__(self, setup: dict) -> None:
        self.setup = setup
        self.control = bytearray()
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if setup["uid"] is not None:
            os.setgroups([])
            os.setresgid(setup["uid"], setup["uid"], setup["uid"])
            os.setresuid(setup["uid"], setup["uid"], setup["uid"])
        # A change of user clears the death signal, so it is set after it.
        self.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # Not dumpable: nobody of our user may trace us or open our descriptors.
        self.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        self.program = None
        if setup["filter"]:
            self.program = _FilterProgram(len(setup["filter"]) // 8, setup["filter"])

    def prctl(self, *arguments):
        if self.libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{arguments}")

    def probe(self) -> dict:
        """What this process finds true about itself, for the run's metadata."""
        return {
            "pid_namespace": os.getpid() == 1,
            "uid": os.getuid(),
            "python": sys.version.split()[0],
            "trials": trial.outside(self.setup) if self.setup["secret"] else {},
        }

    def serve(self) -> None:
        """Answers jobs until the controller closes its end."""
        send(b"R", codec.encode(self.probe()))
        while True:
            kind, body = self.packet()
            if kind == b"J":
                end = self.run(codec.decode(body))
                send(b"E", codec.encode(end))

    def packet(self):
        """Next packet of the controller; ends the process when it is gone."""
        while (found := self.buffered_packet()) is None:
            self.fill()
        return found

    def fill(self):
        data = os.read(0, 1 << 16)
        if not data:
            os._exit(0)
        self.control += data

    def buffered_packet(self):
        if len(self.control) < 5:
            return None
        (size,) = struct.unpack_from("<I", self.control, 1)
        if len(self.control) < 5 + size:
            return None
        kind, body = bytes(self.control[:1]), bytes(self.control[5 : 5 + size])
        del self.control[: 5 + size]
        return kind, body

    def run(self, job: dict) -> dict:
        """Runs one job in a child; returns how it ended."""
        child_in, to_child = os.pipe()
        results, child_out = os.pipe()
        output, child_print = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                for fd in (to_child, results, output):
                    os.close(fd)
                self.become(job, child_in, child_out, child_print)
            finally:
                os._exit(1)
        for fd in (child_in, child_out, child_print):
            os.close(fd)
        prompt = "once" if job["mode"] == "together" else job["serve"]
        watch = Watch(self, pid, to_child, results, output, job["limits"], prompt)
        try:
            watch.loop()
        finally:
            end = watch.close()
        end["scratch"] = wipe(self.setup["scratch"])
        return end

    def become(self, job, child_in, child_out, child_print):
        """The forked child: closes what is ours, takes its limits, runs the job."""
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(child_print, 1)
        os.dup2(child_print, 2)
        os.close(child_print)
        os.chdir(self.setup["scratch"])
        limits = job["limits"]
        cpu = int(limits["cpu"]) + 2
        for name, value in (
            ("CPU", cpu),
            ("AS", limits["memory"]),
            ("FSIZE", limits["file"]),
            ("NOFILE", 64),
            ("NPROC", limits["threads"]),
            ("CORE", 0),
        ):
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
        if self.program is not None:
            self.prctl(
                _PR_SET_SECCOMP,
                _SECCOMP_MODE_FILTER,
                ctypes.byref(self.program),
                0,
                0,
            )
        gc.enable()
        # After the fork, which seeds the shared generator from the system.
        random.seed(0)
        _MODES[job["mode"]](job, child.Channel(child_in, child_out))
        os._exit(0)


def wipe(folder: str) -> bool:
    """Empties a folder; False when that failed or would take long."""
    try:
        names = os.listdir(folder)
        # A new container is cheaper than wiping what a program meant to be slow.
        if len(names) > 1000:
            return False
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.isdir(path) or os.path.islink(path):
                os.unlink(path)
            elif wipe(path):
                os.rmdir(path)
        return not os.listdir(folder)
    except (OSError, RecursionError):
        return False


def main(setup: bytes) -> None:
    """Entry of the warm interpreter."""
    zygote = Zygote(codec.decode(setup))
    child.install_prelude()
    for name in os.environ.pop("RLVR_IMPORTS", "").split():
        importlib.import_module(name)
    gc.collect()
    gc.disable()
    # Children must not copy our heap by counting references while collecting it.
    gc.freeze()
    zygote.serve()
