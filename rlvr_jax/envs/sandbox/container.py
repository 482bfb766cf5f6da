"""One container seen from outside: starts it, runs one job at a time, replaces it."""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import time

from rlvr_jax.envs.sandbox import codec

_START_SECONDS = 20.0
# How much later than its own deadline the zygote may answer before it counts as lost.
_GRACE_SECONDS = 10.0
_MAX_PACKET = 64 << 20
# Stands in a command for the descriptor on which bubblewrap names process 1.
INFO_FD = "{info_fd}"


class ContainerLost(RuntimeError):
    """The container died, stalled or broke the protocol: no verdict about the job."""


class Container:
    """A warm interpreter inside the wall.

    Args:
        arguments: the command that starts it; INFO_FD in it becomes a descriptor.
        environment: its whole environment.
        jobs_per_container: it is replaced after so many jobs.
    """

    def __init__(
        self,
        *,
        arguments: list[str],
        environment: dict[str, str],
        jobs_per_container: int,
    ) -> None:
        self.arguments = arguments
        self.environment = environment
        self.jobs_per_container = jobs_per_container
        self.process = None
        self.spoiled = False
        self.jobs = 0
        self.replaced = 0
        self.probe: dict = {}

    def start(self) -> dict:
        """Starts it if it is not running; returns what it found about itself."""
        if self.process is not None:
            return self.probe
        info_read, info_write = os.pipe()
        self.process = subprocess.Popen(
            [str(info_write) if w == INFO_FD else w for w in self.arguments],
            pass_fds=(info_write,),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        os.close(info_write)
        self.info = info_read
        os.set_blocking(self.process.stdin.fileno(), False)
        self.buffer = bytearray()
        self.spoiled = False
        self.jobs = 0
        self.deadline = time.monotonic() + _START_SECONDS
        try:
            while not (packets := self.receive()):
                pass
        except ContainerLost:
            message = self.last_words()
            self.stop()
            raise ContainerLost(f"the container did not start: {message}") from None
        self.probe = codec.decode(packets[0][1])
        return self.probe

    def last_words(self):
        """What the dying start-up wrote to stderr, its last line."""
        self._kill_inside()
        self.process.kill()
        text = self.process.stderr.read(65536).decode(errors="replace").strip()
        return text.splitlines()[-1][:300] if text else "no message"

    def stop(self) -> None:
        """Ends it and everything inside; returns when bubblewrap is gone."""
        if self.process is None:
            return
        process, self.process = self.process, None
        # Process 1 ends when its control pipe closes, and takes its namespace along.
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._kill_inside()
            # Bubblewrap goes after process 1; killed first, it would leave it behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5.0)
            process.kill()
            process.wait()
        process.stderr.close()
        os.close(self.info)

    def _kill_inside(self):
        """Kills process 1. Bubblewrap, still there, has not reaped it: the id holds."""
        # Nothing to read, or nobody to kill, means that there is no process 1.
        with contextlib.suppress(ValueError, KeyError, OSError):
            os.set_blocking(self.info, False)
            inside = json.loads(os.read(self.info, 4096))["child-pid"]
            os.kill(inside, signal.SIGKILL)

    def begin(self, job: dict) -> None:
        """Sends a job; its packets then come from `receive` until one of kind E."""
        if self.spoiled or self.jobs >= self.jobs_per_container:
            self.stop()
            self.replaced += 1
        self.start()
        self.jobs += 1
        self.deadline = time.monotonic() + job["limits"]["wall"] + _GRACE_SECONDS
        self.send(b"J", codec.encode(job, max_bytes=_MAX_PACKET))

    def send(self, kind: bytes, body: bytes) -> None:
        """Writes one packet to the zygote, reading meanwhile: both may be full."""
        data = memoryview(kind + struct.pack("<I", len(body)) + body)
        pipe = self.process.stdin.fileno()
        while data:
            try:
                data = data[os.write(pipe, data) :]
            except BlockingIOError:
                ready = wait_for([self], self.seconds_left(), write_fd=pipe)
                if self.fileno() in ready:
                    self._read()
                elif not ready:
                    raise self._lost("stalled") from None
            except OSError:
                raise self._lost("died") from None

    def fileno(self) -> int:
        """Readable when `receive` has something to read."""
        return self.process.stdout.fileno()

    def seconds_left(self) -> float:
        """Until the container counts as stalled."""
        return self.deadline - time.monotonic()

    def has_packet(self) -> bool:
        """A whole packet was read already: `receive` would not wait."""
        if len(self.buffer) < 5:
            return False
        (size,) = struct.unpack_from("<I", self.buffer, 1)
        if size > _MAX_PACKET:
            raise self._lost("sent nonsense")
        return len(self.buffer) >= 5 + size

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Waits for news; returns the (kind, body) packets that are whole, if any."""
        if not self.has_packet():
            if not wait_for([self], self.seconds_left()):
                raise self._lost("stalled")
            self._read()
        packets = []
        while self.has_packet():
            kind, size = struct.unpack_from("<cI", self.buffer)
            packets.append((kind, bytes(self.buffer[5 : 5 + size])))
            del self.buffer[: 5 + size]
        return packets

    def _read(self):
        data = os.read(self.fileno(), 1 << 18)
        if not data:
            raise self._lost("died")
        self.buffer += data

    def _lost(self, what):
        self.spoiled = True
        return ContainerLost(f"the container {what}")

    def finish(self, end: dict) -> None:
        """Takes the end record of a job; anything odd spoils the container."""
        odd = end["killed"] not in ("", "controller")
        if odd or end["leftovers"] or not end["scratch"]:
            self.spoiled = True


def wait_for(
    containers: list[Container], seconds: float, *, write_fd: int | None = None
) -> set[int]:
    """Descriptors that became ready: containers with news, and `write_fd` with room.

    With poll, because select fails on descriptors above 1023, which a training
    process may well have.
    """
    poll = select.poll()
    for container in containers:
        poll.register(container.fileno(), select.POLLIN)
    if write_fd is not None:
        poll.register(write_fd, select.POLLOUT)
    return {fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)}


class Job:
    """One running job: turns packets into frames and an end record.

    Args:
        container: where it runs; it starts at once.
        job: from `jobs`.
    """

    def __init__(self, container: Container, job: dict) -> None:
        self.container = container
        self.reader = codec.FrameReader()
        self.end: dict | None = None
        self.garbage = False
        container.begin(job)

    def receive(self) -> list:
        """Waits for news; returns the frames that arrived, [] when it ended."""
        frames = []
        for kind, body in self.container.receive():
            if kind == b"D" and not self.garbage:
                try:
                    frames += self.reader.feed(body)
                except codec.CodecError:
                    # The child writes what it likes: its frames end here.
                    self.garbage = True
            elif kind == b"E":
                self.end = codec.decode(body)
                self.container.finish(self.end)
        return frames

    def send(self, value: object) -> None:
        """Sends one frame to the child."""
        self.container.send(b"D", codec.frame(value))

    def cancel(self) -> None:
        """Kills the child, if it still runs, and waits for the end."""
        if self.end is None:
            self.container.send(b"K", b"")
        while self.end is None:
            self.receive()


def run_alone(container: Container, job: dict) -> tuple[list, dict]:
    """Runs a job that needs no answers; returns its frames and its end record."""
    running = Job(container, job)
    frames = []
    while running.end is None:
        frames += running.receive()
    return frames, running.end
