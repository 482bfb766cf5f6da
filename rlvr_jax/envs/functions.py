"""Verifier of a user's own reward functions, in TRL's or verl's signature."""

import dataclasses
import math
import threading
from collections.abc import Sequence

from rlvr_jax.envs.math import WRONG_FEEDBACK
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.envs.verifier import Verifier
from rlvr_jax.envs.workers import Pool, Worker, WorkerLost, WorkerOvertime
from rlvr_jax.tasks.records import Task

_LOAD_SECONDS = 600.0
_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Task)
    if field.name not in ("prompt", "metadata")
)
# The accelerator belongs to the training process.
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu"}


@dataclasses.dataclass(frozen=True)
class _Scored(Verdict):
    """A verdict that remembers what each function returned."""

    values: tuple[float | None, ...] = ()


class FunctionError(ValueError):
    """A reward function raised, or returned what is no list of numbers and None."""


class FunctionVerifier(Verifier):
    """The weighted sum of a user's reward functions.

    Two signatures are known, sync or async; a function may leave out any argument.

    - TRL's `f(prompts, completions, **columns) -> list[float | None]`. Every argument
      is a list, here of one entry: columns are the task's fields (id, kind, answer,
      tests, ..) and the entries of its metadata; a field wins over an entry of the
      same name. For a prompt of messages the completion is a list with one assistant
      message, else a text.
    - verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`,
      known by `solution_str` and `ground_truth`, which returns a number or a dict with
      "score". The arguments are the metadata entries of these names; without them the
      task's kind, its answer and its metadata.

    None abstains. The reward is the weighted sum of those that do not; if all with a
    weight abstain, the verdict does, and the node is left out. A function of weight 0
    is a metric only: a run has the mean of each as reward/NAME, see `means`. Functions
    run in worker processes with jax on the CPU, one response at a time in each, without
    a sandbox: they are your own code. A response that takes longer than `seconds` has
    status infrastructure, never reward 0, and the worker is replaced.

    Args:
        functions: "module:function" or "path/file.py:function".
        weights: one per function; () is 1 for each.
        threshold: the weighted reward from which on a task is solved.
        workers, cache_size: see Verifier. A function that is random or depends on
            more than the task and the response wants cache_size 0.
        feedback: what an unsolved response is told.
        seconds: wall time for all functions of one response, > 0.

    Raises:
        ValueError: impossible settings, or a function that cannot be loaded.
    """

    def __init__(
        self,
        *,
        functions: Sequence[str],
        threshold: float,
        weights: Sequence[float] = (),
        workers: int = 2,
        cache_size: int = 65536,
        feedback: str = WRONG_FEEDBACK,
        seconds: float = 30.0,
    ) -> None:
        self.functions = tuple(functions)
        self.weights = tuple(weights) or (1.0,) * len(self.functions)
        self.threshold, self.feedback, self.seconds = threshold, feedback, seconds
        self._check()
        super().__init__(workers=workers, cache_size=cache_size)
        self._labels = _labels(self.functions)
        self._sums = {label: [0.0, 0] for label in self._labels}
        self._sums_lock = threading.Lock()
        entry = "rlvr_jax.envs.function_worker"
        self.pool = Pool(
            [Worker(entry, environment=_ENVIRONMENT) for _ in range(workers)]
        )
        self._loaded = {}
        try:
            with self.pool.lend() as worker:
                self._load(worker)
        except BaseException as error:
            self.close()
            if isinstance(error, (WorkerLost, WorkerOvertime)):
                raise ValueError(
                    f"functions {self.functions} ended the process that loads them"
                ) from error
            raise

    def _check(self):
        if not self.functions:
            raise ValueError("functions must name at least one function, got none")
        if len(set(self.functions)) < len(self.functions):
            raise ValueError(f"functions must be different, got {self.functions}")
        for name in self.functions:
            module, _, attribute = name.rpartition(":")
            if not module or not attribute:
                raise ValueError(
                    "functions must be of the form module:function or"
                    f" path/file.py:function, got {name!r}"
                )
        if len(self.weights) != len(self.functions):
            raise ValueError(
                f"weights must be one for each of {len(self.functions)} functions, got"
                f" {self.weights}"
            )
        if not all(map(math.isfinite, self.weights)) or not any(self.weights):
            raise ValueError(
                f"weights must be finite and not all 0, got {self.weights}"
            )
        if not math.isfinite(self.threshold):
            raise ValueError(f"threshold must be a finite number, got {self.threshold}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be above 0, got {self.seconds}")

    def _load(self, worker):
        """Loads the functions into a process that has not loaded them yet."""
        if self._loaded.get(worker) != worker.started:
            reply = worker.ask({"load": self.functions}, seconds=_LOAD_SECONDS)
            if "error" in reply:
                raise FunctionError(f"functions: {reply['error']}")
            self._loaded[worker] = worker.started

    def grade(self, task: Task, response: str) -> Verdict:
        request = _request(task, response)
        with self.pool.lend() as worker:
            for _ in range(2):
                try:
                    worker.renew()
                    self._load(worker)
                    reply = worker.ask(request, seconds=self.seconds)
                    break
                except WorkerOvertime:
                    return unknown("infrastructure")
                except WorkerLost:
                    continue
            else:
                return unknown("infrastructure")
        if "error" in reply:
            raise FunctionError(
                f"task {task.id!r}: {reply['error']}; the columns are"
                f" {sorted(request['columns'])}"
            )
        return self._verdict([values[0] for values in reply["values"]])

    def _verdict(self, values):
        terms = [
            weight * value
            for weight, value in zip(self.weights, values, strict=True)
            if weight and value is not None
        ]
        values = tuple(values)
        if not terms:
            return _Scored(None, False, "", "abstained", 0, 0, values=values)
        reward = math.fsum(terms)
        if reward >= self.threshold:
            said = "Your answer is right."
            return _Scored(reward, True, said, "passed", 1, 1, True, values=values)
        return _Scored(reward, False, self.feedback, "failed", 0, 1, values=values)

    def verify(self, pairs: Sequence[tuple[Task, str]]) -> list[Verdict]:
        verdicts = super().verify(pairs)
        with self._sums_lock:
            for verdict in verdicts:
                # One that the host failed to grade has none.
                for label, value in zip(
                    self._labels, getattr(verdict, "values", ()), strict=False
                ):
                    if value is not None:
                        self._sums[label][0] += value
                        self._sums[label][1] += 1
        return verdicts

    def means(self) -> dict[str, float]:
        """Mean value of each function over all responses since the last call.

        Names are those of the functions, without module or file unless two would then
        be called the same. A function that only abstained has no mean.
        """
        with self._sums_lock:
            found = {label: s / n for label, (s, n) in self._sums.items() if n}
            self._sums = {label: [0.0, 0] for label in self._labels}
        return found

    def describe(self) -> dict:
        return {
            **super().describe(),
            "functions": dict(zip(self.functions, self.weights, strict=True)),
            "threshold": self.threshold,
        }

    def close(self) -> None:
        super().close()
        self.pool.close()


def _labels(functions: Sequence[str]) -> tuple[str, ...]:
    """What metrics call each function; reward/mean and reward/std are taken."""
    short = [name.rpartition(":")[2] for name in functions]
    return tuple(
        name if short.count(label) > 1 or label in ("mean", "std") else label
        for name, label in zip(functions, short, strict=True)
    )


def _request(task: Task, response: str) -> dict:
    """One response in both signatures."""
    chat = not isinstance(task.prompt, str)
    completion = [{"role": "assistant", "content": response}] if chat else response
    metadata = task.metadata
    columns = {**metadata, **{name: getattr(task, name) for name in _FIELDS}}
    return {
        "prompts": [task.prompt],
        "completions": [completion],
        "columns": {name: [value] for name, value in columns.items()},
        "verl": [
            {
                "data_source": metadata.get("data_source", task.kind),
                "solution_str": response,
                "ground_truth": metadata.get("ground_truth", task.answer),
                "extra_info": metadata.get("extra_info", metadata),
            }
        ],
    }
