"""Verifier of procedural program synthesis: programs against (input, output) pairs."""

from collections.abc import Sequence

from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.sandbox import Limits, run_alone, solution_job
from rlvr_jax.envs.verdict import Verdict, cut, unknown
from rlvr_jax.envs.verifier import SandboxVerifier
from rlvr_jax.tasks.records import Task

HIDDEN_FEEDBACK = "hidden test failed"
_VALUE_CHARACTERS = 24


class ProgramsVerifier(SandboxVerifier):
    """Grades a Python expression or function against integer pairs.

    A task's tests and visible_tests are (argument, expected) pairs, an argument being
    an int or a tuple of ints; `metadata["parameters"]` names the parameters (default
    ("x",)); `entry_point` names the function (default "f"). The response is an
    expression in the parameters or a definition of the function, bare or fenced; of
    several blocks the last that defines the function, else the longest that parses.

    All inputs run in one forked child, whose values leave as data and are compared
    here: the expected values never enter the sandbox. A test passes when the value is
    an int, or a float, and equals the expected one (11.0 is 11; True is not 1).

    Reward is the fraction of all tests passed, hidden ones included.

    Args:
        workers, cache_size, allow_unsafe, require: see SandboxVerifier.
        limits: of one program, all inputs together.
        max_characters: a longer response is not run: status output_limit, reward 0.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        cache_size: int = 65536,
        allow_unsafe: bool = False,
        require: Sequence[str] = (),
        limits: Limits | None = None,
        max_characters: int = 4096,
    ) -> None:
        self.max_characters = max_characters
        super().__init__(
            limits=limits
            or Limits(cpu_seconds=0.5, wall_seconds=5.0, memory_bytes=256 << 20),
            workers=workers,
            cache_size=cache_size,
            allow_unsafe=allow_unsafe,
            require=require,
        )

    def grade(self, task: Task, response: str) -> Verdict:
        total = len(all_pairs(task))
        if not total:
            return unknown("abstained", "no tests")
        if len(response) > self.max_characters:
            return Verdict(0.0, False, "too long", "output_limit", 0, total)
        if not response.strip():
            return Verdict(0.0, False, "no answer", "no_answer", 0, total)
        return super().grade(task, response)

    def run(self, task: Task, response: str, cell: object) -> Verdict:
        pairs = all_pairs(task)
        blocks = code_blocks(response)
        if not blocks:
            return Verdict(0.0, False, "no answer", "no_answer", 0, len(pairs))
        job = solution_job(
            [source for source, _ in blocks],
            entry_point=task.entry_point or "f",
            limits=self.limits,
            parameters=_parameters(task),
            calls=[_arguments(argument) for argument, _ in pairs],
        )
        frames, end = run_alone(cell.solution, job)
        return _judge(task, pairs, frames, end)


def all_pairs(task: Task) -> list[tuple]:
    """The pairs of a task, the visible ones first, none twice."""
    visible = list(task.visible_tests)
    return visible + [pair for pair in task.tests if pair not in visible]


def judge_values(task: Task, values: Sequence[int]) -> Verdict:
    """The verdict of a program whose values are known, without running anything.

    Args:
        task: of kind "programs".
        values: what the program returns, one per pair of `all_pairs(task)`.

    Returns:
        What `ProgramsVerifier` says about the program, word for word.
    """
    frames = [("loaded", 0), *(("value", value) for value in values)]
    return _judge(task, all_pairs(task), frames, {"killed": None})


def _parameters(task):
    return list(task.metadata.get("parameters", ("x",)))


def _arguments(argument):
    return tuple(argument) if isinstance(argument, (tuple, list)) else (argument,)


def _judge(task, pairs, frames, end):
    """The verdict, from what the child wrote and how it ended."""
    early = {"cpu": "timeout", "wall": "timeout", "output": "output_limit"}
    stopped = early.get(end["killed"], "error")
    first = frames[0] if frames and isinstance(frames[0], tuple) else ("nothing",)
    if first[0] != "loaded":
        return _load_failure(first, stopped, len(pairs))
    outcomes = [
        _outcome(frames[i + 1] if i + 1 < len(frames) else None, expected, stopped)
        for i, (_, expected) in enumerate(pairs)
    ]
    passed = sum(status == "passed" for status, _ in outcomes)
    solved = passed == len(pairs)
    shown = len(task.visible_tests)
    failing = [i for i, (status, _) in enumerate(outcomes) if status != "passed"]
    visible_passed = not failing or failing[0] >= shown
    if solved:
        return Verdict(1.0, True, "passed", "passed", passed, passed, True)
    feedback = HIDDEN_FEEDBACK
    status, got = outcomes[failing[0]]
    if not visible_passed:
        argument, expected = pairs[failing[0]]
        shown_input = ",".join(
            f"{name}={show(value)}"
            for name, value in zip(
                _parameters(task), _arguments(argument), strict=False
            )
        )
        feedback = f"{shown_input} gave {got}, want {show(expected)}"
    reward = passed / len(pairs)
    return Verdict(reward, False, feedback, status, passed, len(pairs), visible_passed)


def _load_failure(first, stopped, total):
    """The verdict of a program that never got to its first call."""
    status, feedback = stopped, "output limit" if stopped == "output_limit" else stopped
    if first[0] == "load_error" and len(first) == 5:
        name = _name(first[2])
        status = "memory" if name == "MemoryError" else "error"
        syntax = name in ("SyntaxError", "IndentationError", "TabError")
        feedback = "syntax error" if syntax else cut(name, _VALUE_CHARACTERS)
    return Verdict(0.0, False, feedback, status, 0, total)


def _outcome(frame, expected, stopped):
    """(status, what to show) of one call; `frame` None: the child died before it."""
    if frame is None:
        return stopped, {"output_limit": "too much output"}.get(stopped, stopped)
    kind = frame[0] if isinstance(frame, tuple) and len(frame) > 1 else None
    if kind == "value":
        value = frame[1]
        right = type(value) in (int, float) and value == expected
        return ("passed" if right else "failed"), show(value)
    if kind == "opaque":
        return "failed", cut(_name(frame[1]), _VALUE_CHARACTERS)
    if kind == "error":
        name = _name(frame[1])
        status = "memory" if name == "MemoryError" else "error"
        return status, cut(name, _VALUE_CHARACTERS)
    return "error", "error"


def _name(value):
    """A name that the child told; it may have told anything, a huge int for one."""
    return value if type(value) is str else "error"


def show(value: object) -> str:
    """repr of a value on one line, its middle cut out beyond 24 characters."""
    # Digits of a huge int cost quadratic time, and Python refuses to make them.
    if type(value) is int and value.bit_length() > 4096:
        return "a huge int"
    try:
        return cut(repr(value), _VALUE_CHARACTERS)
    except ValueError:
        return f"a huge {type(value).__name__}"
