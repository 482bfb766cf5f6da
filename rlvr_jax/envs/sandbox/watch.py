"""Watching over one child from the warm interpreter: its bytes, limits and end."""

import contextlib
import os
import select
import signal
import struct
import time

_COLLECT_SECONDS = 0.01


def send(kind: bytes, body: bytes) -> None:
    """Writes one packet to the controller."""
    data = memoryview(kind + struct.pack("<I", len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


class Watch:
    """Looks after one child: carries its bytes, holds it to its limits.

    Args:
        zygote: the owner of the control pipe.
        pid: the child.
        to_child, results, output: our ends of its three pipes.
        limits: "cpu" and "wall" seconds, "output" and "results" bytes.
        prompt: True passes results on at once, for a child that is being asked;
            False collects them, and spares a program that takes a millisecond
            the switching between processes; "once" until it got its one answer.
    """

    def __init__(self, zygote, pid, to_child, results, output, limits, prompt) -> None:
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
        self.prompt = prompt
        for fd in (0, output, self.pidfd, *([results] if prompt else [])):
            self.poll.register(fd, select.POLLIN)
        for fd in (to_child, results, output):
            os.set_blocking(fd, False)

    def loop(self):
        """Until the child is dead, killed by us if need be, and its pipes are empty."""
        # What arrived together with the job is not announced by the pipe again.
        self.obey()
        while not self.killed and not self.step():
            pass
        os.kill(self.pid, signal.SIGKILL)
        # What it wrote before it died still counts.
        for fd in (self.results, self.output):
            while fd in self.room and self.carry(fd):
                pass

    def step(self):
        """One wait for news; True when the child is dead."""
        wait = self.check_time()
        if not self.prompt:
            wait = min(wait, _COLLECT_SECONDS)
        ready = {fd for fd, _ in self.poll.poll(wait * 1000 + 1)}
        if 0 in ready:
            self.take_control()
        if self.to_child in ready:
            self.feed()
        for fd in (self.results, self.output):
            if fd in ready or (fd == self.results and fd in self.room and not ready):
                self.carry(fd)
        return self.pidfd in ready

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
        self.obey()

    def obey(self):
        """Follows the controller's packets that were read."""
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
        if self.prompt == "once" and not self.pending:
            self.prompt = False
            if self.results in self.room:
                self.poll.unregister(self.results)

    def carry(self, fd):
        """Reads what a pipe holds; False when there is nothing more now."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            if fd != self.results or self.prompt:
                self.poll.unregister(fd)
            del self.room[fd]
            return False
        self.room[fd] -= len(data)
        if self.room[fd] < 0:
            self.killed = self.killed or "output"
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
