"""The warm interpreter inside the wall: forks one child per program.

Single-threaded, process 1 of its namespace, and never runs job content itself. It
talks to the controller over stdin and stdout in packets of 1 byte kind, 4 bytes
length, body: J a job, D bytes between controller and child, K kill the child, E the
end of the job, R ready.
"""

import contextlib
import ctypes
import gc
import os
import random
import resource
import select
import shutil
import signal
import struct
import sys
import time

from rlvr_jax.envs.sandbox import child, codec

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class Zygote:
    """State of the warm interpreter.

    Args:
        setup: decoded settings: "uid" (None or the user to become), "filter" (BPF
            program for children, b"" for none), "scratch" (its writable folder).
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
            "seccomp": self.program is not None,
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
        watch = Watch(self, pid, to_child, results, output, job["limits"])
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
        child.run(job, child.Channel(child_in, child_out))
        os._exit(0)


class Watch:
    """Looks after one child: carries its bytes, holds it to its limits.

    Args:
        zygote: the owner of the control pipe.
        pid: the child.
        to_child, results, output: our ends of its three pipes.
        limits: "cpu" and "wall" seconds, "output" and "results" bytes.
    """

    def __init__(self, zygote, pid, to_child, results, output, limits) -> None:
        self.zygote, self.pid = zygote, pid
        self.to_child, self.results, self.output = to_child, results, output
        self.limits = limits
        self.pidfd = os.pidfd_open(pid)
        self.pending = bytearray()
        self.feeding = False
        self.room = {results: limits["results"], output: limits["output"]}
        self.killed = ""
        self.deadline = time.monotonic() + limits["wall"]
        # Linux's number for the CPU clock of another process.
        self.clock = ((-pid - 1) << 3) | 2
        self.poll = select.poll()
        for fd in (0, results, output, self.pidfd):
            self.poll.register(fd, select.POLLIN)
        for fd in (to_child, results, output):
            os.set_blocking(fd, False)

    def loop(self):
        """Until the child is dead or has been killed."""
        while True:
            wait = self.check_time()
            if self.killed:
                return
            ready = {fd for fd, _ in self.poll.poll(wait * 1000 + 1)}
            if 0 in ready:
                self.take_control()
            if self.to_child in ready:
                self.feed()
            for fd in (self.results, self.output):
                if fd in ready:
                    self.carry(fd)
            if self.pidfd in ready:
                # What it wrote before it died still counts.
                for fd in (self.results, self.output):
                    while fd in self.room and self.carry(fd):
                        pass
                return

    def check_time(self):
        """Kills on a passed limit; returns how long nothing can pass, in seconds."""
        wall = self.deadline - time.monotonic()
        try:
            cpu = self.limits["cpu"] - time.clock_gettime(self.clock)
        except OSError:
            cpu = self.limits["cpu"]
        if cpu <= 0:
            self.killed = "cpu"
        elif wall <= 0:
            self.killed = "wall"
        return max(0.0, min(wall, cpu))

    def take_control(self):
        self.zygote.fill()
        while (packet := self.zygote.buffered_packet()) is not None:
            kind, body = packet
            if kind == b"D":
                self.pending += body
            elif kind == b"K":
                self.killed = "controller"
        if self.pending:
            self.feed()

    def feed(self):
        try:
            done = os.write(self.to_child, self.pending)
            del self.pending[:done]
        except BlockingIOError:
            pass
        except OSError:
            self.pending.clear()  # the child closed its end
        if self.pending and not self.feeding:
            self.poll.register(self.to_child, select.POLLOUT)
        elif self.feeding and not self.pending:
            self.poll.unregister(self.to_child)
        self.feeding = bool(self.pending)

    def carry(self, fd):
        """Reads what a pipe holds; False when there is nothing more now."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self.poll.unregister(fd)
            del self.room[fd]
            return False
        self.room[fd] -= len(data)
        if self.room[fd] < 0:
            self.killed = "output"
            return False
        if fd == self.results:
            send(b"D", data)
        return True

    def close(self):
        """Kills and reaps the child and whatever it left; returns the end record."""
        os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        leftovers = reap_leftovers() if os.getpid() == 1 else 0
        for fd in (self.to_child, self.results, self.output, self.pidfd):
            os.close(fd)
        return {
            "killed": self.killed,
            "exit": os.waitstatus_to_exitcode(status),
            "cpu": usage.ru_utime + usage.ru_stime,
            "leftovers": leftovers,
        }


def reap_leftovers() -> int:
    """Kills every other process of the namespace; returns how many there were."""
    count = 0
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            count += 1
        except ChildProcessError:
            return count


def wipe(folder: str) -> bool:
    """Empties a folder; False when that failed or would take long."""
    try:
        names = os.listdir(folder)
        # A new container is cheaper than wiping what a program meant to be slow.
        if len(names) > 1000:
            return False
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        return not os.listdir(folder)
    except (OSError, RecursionError):
        return False


def send(kind: bytes, body: bytes) -> None:
    """Writes one packet to the controller."""
    data = memoryview(kind + struct.pack("<I", len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


def main(setup: bytes) -> None:
    """Entry of the warm interpreter."""
    zygote = Zygote(codec.decode(setup))
    child.install_prelude()
    gc.collect()
    gc.disable()
    # Children must not copy our heap by counting references while collecting it.
    gc.freeze()
    zygote.serve()
