"""Worker processes that may be killed: clean interpreters, never forks of this one."""

import contextlib
import json
import os
import pickle
import queue
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

_LENGTH = struct.Struct("<I")
_MAX_REPLY = 1 << 24
_START = (
    "import json, sys; setup = json.loads(sys.argv[1]); sys.path[:] = setup['path'];"
    " import importlib; importlib.import_module(setup['entry']).main()"
)


class WorkerLost(Exception):
    """The worker process ended, or said something that is no reply."""


class WorkerOvertime(Exception):
    """The worker did not answer in time; it was killed."""


class Worker:
    """One process that answers one request at a time; started when first asked.

    Requests are pickles (we wrote them), replies are JSON: nothing that a worker says
    is executed here.

    Args:
        entry: a module whose `main()` serves requests, see `serve`.
        start_seconds: wall time that a start, imports included, may take.
        environment: variables set on top of this process's own.

    Attributes:
        started, replaced: processes so far, and those of them that were killed or lost.
    """

    def __init__(
        self,
        entry: str,
        *,
        start_seconds: float = 120.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.entry, self.start_seconds = entry, start_seconds
        self.environment = dict(environment or {})
        self.started = self.replaced = 0
        self._process: subprocess.Popen | None = None

    def ask(self, request: object, *, seconds: float) -> dict:
        """The reply to a request.

        Args:
            request: anything that can be pickled.
            seconds: wall time for the answer, a start not counted.

        Raises:
            WorkerOvertime: no answer in time; the process and its children are killed.
            WorkerLost: the process ended; the next request starts another.
        """
        self.renew()
        try:
            self._send(pickle.dumps(request, protocol=5))
            return self._receive(time.monotonic() + seconds)
        except (OSError, ValueError, WorkerLost, WorkerOvertime) as error:
            self._kill()
            if isinstance(error, (WorkerLost, WorkerOvertime)):
                raise
            raise WorkerLost(str(error)) from error

    def renew(self) -> None:
        """Starts a process if there is none, or if the one there is has ended."""
        if self._process is not None and self._readable(0):
            self._kill()  # a reply to nothing, or the end of the process
        if self._process is None:
            self._start()

    def stop(self) -> None:
        """Kills the process; safe to call twice."""
        if self._process is not None:
            self._kill()
            self.replaced -= 1

    def _start(self):
        path = [entry or os.getcwd() for entry in sys.path]
        setup = json.dumps({"path": path, "entry": self.entry})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.environment},
            bufsize=0,
            start_new_session=True,
        )
        self.started += 1
        try:
            self._receive(time.monotonic() + self.start_seconds)
        except (OSError, ValueError, WorkerLost, WorkerOvertime) as error:
            self._kill()
            raise WorkerLost(f"{self.entry} did not start: {error}") from error

    def _kill(self):
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()
        self.replaced += 1

    def _send(self, payload):
        view = memoryview(_LENGTH.pack(len(payload)) + payload)
        while view:
            view = view[self._process.stdin.write(view) :]

    def _receive(self, deadline):
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > _MAX_REPLY:
            raise WorkerLost(f"a reply of {length} bytes")
        reply = json.loads(self._read(length, deadline))
        if not isinstance(reply, dict):
            raise WorkerLost("a reply that is no object")
        return reply

    def _read(self, count, deadline):
        data = b""
        while len(data) < count:
            if not self._readable(max(0.0, deadline - time.monotonic())):
                raise WorkerOvertime
            chunk = os.read(self._process.stdout.fileno(), count - len(data))
            if not chunk:
                raise WorkerLost("the process ended")
            data += chunk
        return data

    def _readable(self, seconds):
        # Not select(): it fails for descriptors above 1023.
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


class Pool:
    """Workers that are lent to one thread at a time.

    Args:
        workers: as many as there are threads that ask.
    """

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self._free: queue.SimpleQueue = queue.SimpleQueue()
        for worker in workers:
            self._free.put(worker)

    @contextlib.contextmanager
    def lend(self) -> Iterator[Worker]:
        """Lends a worker; waits until one is free."""
        worker = self._free.get()
        try:
            yield worker
        finally:
            self._free.put(worker)

    def replaced(self) -> int:
        """How many processes were killed or lost so far."""
        return sum(worker.replaced for worker in self.workers)

    def close(self) -> None:
        """Ends every process; safe to call twice."""
        for worker in self.workers:
            worker.stop()


class Channel:
    """The worker's side: takes the standard streams away from the code it runs."""

    def __init__(self) -> None:
        self._requests, self._replies = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)  # what it prints must not look like a reply

    def requests(self) -> Iterator[object]:
        """Requests, until the other side is gone."""
        while head := self._exactly(_LENGTH.size):
            yield pickle.loads(self._exactly(_LENGTH.unpack(head)[0]))

    def reply(self, answer: dict) -> None:
        """Sends one reply."""
        payload = json.dumps(answer).encode()
        view = memoryview(_LENGTH.pack(len(payload)) + payload)
        while view:
            view = view[os.write(self._replies, view) :]

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            chunk = os.read(self._requests, count - len(data))
            if not chunk:
                return b""
            data += chunk
        return data
