"""What all verifiers share: batches, concurrency, and grading equal pairs once."""

import abc
import collections
import concurrent.futures
import threading
from collections.abc import Sequence

from rlvr_jax.envs.sandbox import ContainerLost, Limits, Sandbox
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.tasks.records import Task

# Statuses that a second try on the same host gives again.
_DETERMINISTIC = ("passed", "failed", "no_answer", "error", "output_limit", "abstained")

# Of a container's memory beside the program's: its warm interpreter and bubblewrap.
_INTERPRETER_BYTES = 256 << 20


class Verifier(abc.ABC):
    """Grades batches of (task, response) pairs.

    Args:
        workers: how many pairs are graded at once, >= 1.
        cache_size: deterministic verdicts kept, >= 0; the least recently used go.
    """

    def __init__(self, *, workers: int = 2, cache_size: int = 65536) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        if cache_size < 0:
            raise ValueError(f"cache_size must be 0 or more, got {cache_size}")
        self.workers = workers
        self.cache_size = cache_size
        self._verdicts: collections.OrderedDict = collections.OrderedDict()
        self._lock = threading.Lock()
        self._threads = concurrent.futures.ThreadPoolExecutor(
            max_workers=workers, thread_name_prefix="rlvr-verify"
        )
        self._closed = False

    @abc.abstractmethod
    def grade(self, task: Task, response: str) -> Verdict:
        """The verdict of one pair; called from several threads."""

    def describe(self) -> dict:
        """What the sandbox probed on this host, for the run's metadata."""
        return {"workers": self.workers}

    def means(self) -> dict[str, float]:
        """Mean of each part of the reward since the last call; most have no parts."""
        return {}

    def verify(self, pairs: Sequence[tuple[Task, str]]) -> list[Verdict]:
        """The verdicts of `pairs`, in their order.

        Args:
            pairs: (task, response text). Task ids are unique: pairs that agree in id
                and response are graded once in the life of the verifier.

        Raises:
            RuntimeError: the verifier was closed.
        """
        if self._closed:
            raise RuntimeError("verify was called on a closed verifier; make a new one")
        keys = [(task.id, response) for task, response in pairs]
        verdicts, running = {}, {}
        for key, (task, response) in zip(keys, pairs, strict=True):
            if key in verdicts or key in running:
                continue
            known = self._recall(key)
            if known is not None:
                verdicts[key] = known
            else:
                running[key] = self._threads.submit(self.grade, task, response)
        for key, future in running.items():
            verdicts[key] = future.result()
            self._remember(key, verdicts[key])
        return [verdicts[key] for key in keys]

    def _recall(self, key):
        with self._lock:
            if key in self._verdicts:
                self._verdicts.move_to_end(key)
            return self._verdicts.get(key)

    def _remember(self, key, verdict):
        if verdict.status not in _DETERMINISTIC:
            return
        with self._lock:
            self._verdicts[key] = verdict
            while len(self._verdicts) > self.cache_size:
                self._verdicts.popitem(last=False)

    def close(self) -> None:
        """Ends threads and processes; safe to call twice."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class SandboxVerifier(Verifier):
    """A verifier whose programs run in a sandbox of its own.

    Args:
        limits: of one program.
        workers: cells of the sandbox, and pairs graded at once.
        cache_size: see Verifier.
        allow_unsafe, require: see Sandbox.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        workers: int = 2,
        cache_size: int = 65536,
        allow_unsafe: bool = False,
        require: Sequence[str] = (),
    ) -> None:
        super().__init__(workers=workers, cache_size=cache_size)
        self.limits = limits
        self.sandbox = Sandbox(
            workers=workers,
            allow_unsafe=allow_unsafe,
            require=require,
            memory_bytes=limits.memory_bytes + _INTERPRETER_BYTES,
        )

    @abc.abstractmethod
    def run(self, task: Task, response: str, cell: object) -> Verdict:
        """Grades one pair in a cell; may raise ContainerLost."""

    def grade(self, task: Task, response: str) -> Verdict:
        with self.sandbox.cell() as cell:
            for _ in range(2):
                try:
                    return self.run(task, response, cell)
                except (ContainerLost, OSError):
                    # A lost container is the host's fault until it happens again,
                    # and even then it says nothing about the response.
                    cell.solution.spoiled = cell.tests.spoiled = True
        return unknown("infrastructure")

    def describe(self) -> dict:
        return {
            **super().describe(),
            "sandbox": dict(self.sandbox.probe),
            "containers_replaced": self.sandbox.replaced(),
        }

    def close(self) -> None:
        super().close()
        self.sandbox.close()
