"""Verifier of code: unit tests in one container, the solution in another."""

from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.feedback import TEST_CHARACTERS, load_error, outcome
from rlvr_jax.envs.sandbox import (
    Cell,
    ContainerLost,
    Job,
    Limits,
    solution_job,
    tests_job,
    wait_for,
)
from rlvr_jax.envs.verdict import Verdict, cut, unknown
from rlvr_jax.envs.verifier import SandboxVerifier
from rlvr_jax.tasks.records import Task

HIDDEN_FEEDBACK = "The visible tests pass, but a hidden test fails."
NO_CODE_FEEDBACK = "No code was found in your answer."
PASSED_FEEDBACK = "All tests pass."
_STOPPED = {
    "cpu": ("timeout", "Your code did not finish in time."),
    "wall": ("timeout", "Your code did not finish in time."),
    "output": ("output_limit", "Your code wrote too much output."),
}


class CodeVerifier(SandboxVerifier):
    """Grades Python code with assert statements or a `check(candidate)` function.

    A task's tests are Python sources: each assert in them is one test, and a source
    without any is one test that passes if it runs to its end. `visible_tests` are those
    of the sources that feedback may show. A source that defines `check` has it called
    with the entry point. `setup` runs before the tests; `metadata["preamble"]` (imports
    and helpers of the prompt) runs before the solution and before the setup.

    The tests and the solution run in two containers: a call of the solution in a test
    is a message, its values leave as plain data, changes to list, dict and set
    arguments come back. A solution therefore cannot see the tests, end the test run or
    answer with an object that claims to be equal. Where tests need more than calls
    with plain data (instances of a solution's classes, functions as arguments), do not
    run by themselves, are pairs of stdin and stdout, name a method as entry point or
    need a test framework (`metadata["test_framework"]`), the verdict is abstained.

    The code of a response is the last block that defines the entry point, else the
    longest that parses, else the last; without a fence it is the whole text. Reward is
    the fraction of tests passed.

    Args:
        workers, cache_size, allow_unsafe: see SandboxVerifier.
        limits: of the solution, all tests together.
        max_characters: a longer response is not run: status output_limit, reward 0.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        cache_size: int = 65536,
        allow_unsafe: bool = False,
        limits: Limits | None = None,
        max_characters: int = 65536,
    ) -> None:
        self.limits = limits or Limits()
        self.max_characters = max_characters
        super().__init__(
            workers=workers, cache_size=cache_size, allow_unsafe=allow_unsafe
        )

    def grade(self, task: Task, response: str) -> Verdict:
        if not sources(task):
            return unknown("abstained", "This task has no tests.")
        if unsupported := _unsupported(task):
            return unknown("abstained", f"{unsupported} cannot be graded yet.")
        if not task.entry_point and any("def check(" in s for s in sources(task)):
            return unknown("abstained", "This task does not name its entry point.")
        if len(response) > self.max_characters:
            text = "Your answer is too long."
            return Verdict(0.0, False, text, "output_limit", 0, len(sources(task)))
        if not code_blocks(response):
            total = len(sources(task))
            return Verdict(0.0, False, NO_CODE_FEEDBACK, "no_answer", 0, total)
        return super().grade(task, response)

    def run(self, task: Task, response: str, cell: Cell) -> Verdict:
        blocks = code_blocks(response)
        preamble = task.metadata.get("preamble", "")
        solution = solution_job(
            [source for source, _ in blocks],
            entry_point=task.entry_point,
            limits=self.limits,
            preamble=preamble,
        )
        tests = tests_job(
            sources(task),
            entry_point=task.entry_point,
            limits=self.limits,
            preamble=preamble,
            setup=task.setup,
        )
        run = Run(cell, solution, tests)
        run.drive()
        return _judge(task, response, blocks, run)


def sources(task: Task) -> list[str]:
    """The test sources of a task, the visible ones first, none twice."""
    visible = list(task.visible_tests)
    return visible + [test for test in task.tests if test not in visible]


def _unsupported(task: Task) -> str:
    """Which kind of tests this verifier would misread, "" if none.

    A module of test functions or classes runs to its end whatever they would say.
    """
    if not all(isinstance(test, str) for test in sources(task)):
        return "Programs that read standard input"
    if "." in task.entry_point:
        return "Methods of a class"
    framework = task.metadata.get("test_framework")
    return f"Tests for {framework}" if framework else ""


class Run:
    """One solution and its tests, in two containers, relayed from here.

    Args:
        cell: the two containers.
        solution, tests: their jobs.
    """

    def __init__(self, cell: Cell, solution: dict, tests: dict) -> None:
        self.solution = Job(cell.solution, solution)
        try:
            self.tests = Job(cell.tests, tests)
        except ContainerLost:
            cell.solution.spoiled = True
            raise
        self.loaded: tuple | None = None
        self.asked: tuple | None = None  # a call that the solution has to answer
        self.waiting = False  # the solution has it
        self.texts: list[list[str]] = []  # of each test of each source
        self.broken = False  # the tests themselves cannot run here
        self.outcomes: dict[int, tuple] = {}

    def drive(self) -> None:
        """Carries calls and answers until the tests end; then ends the solution."""
        try:
            while self.tests.end is None:
                self._step()
            self.solution.cancel()
        except BaseException:
            # Whatever is left half-way must not meet the next pair.
            self.solution.container.spoiled = self.tests.container.spoiled = True
            raise

    def _step(self):
        jobs = [job for job in (self.solution, self.tests) if job.end is None]
        containers = [job.container for job in jobs]
        ready = {c.fileno() for c in containers if c.has_packet()}
        if not ready:
            ready = wait_for(containers, min(c.seconds_left() for c in containers))
        for job in jobs:
            # Nothing ready means that somebody's time is over: receive says whose.
            if ready and job.container.fileno() not in ready:
                continue
            for frame in job.receive():
                if job is self.tests:
                    self._hear_tests(frame)
                else:
                    self._hear_solution(frame)
        if self.asked is not None and not self.waiting:
            if self._gone():
                self._answer(("gone",))
            elif self.loaded is not None:
                self.waiting = True
                self.solution.send(self.asked)
        elif self.waiting and self._gone():
            self._answer(("gone",))

    def _gone(self):
        broken = self.loaded is not None and self.loaded[0] != "loaded"
        return self.solution.end is not None or self.solution.garbage or broken

    def _answer(self, reply):
        self.asked, self.waiting = None, False
        self.tests.send(reply)

    def _hear_solution(self, frame):
        """Anything may arrive here: it is data, checked for its shape alone."""
        kind = frame[0] if isinstance(frame, tuple) and frame else None
        if self.loaded is None:
            self.loaded = frame if kind == "loaded" else ("load_error", frame)
        elif self.waiting and (kind, len(frame)) in (
            ("value", 3),
            ("opaque", 2),
            ("error", 4),
        ):
            self._answer(frame)

    def _hear_tests(self, frame):
        if frame[0] == "tests":
            self.texts.append(frame[1])
        elif frame[0] == "broken":
            self.broken = True
        elif frame[0] == "call":
            self.asked = frame[1:]
        elif frame[0] == "test":
            self.outcomes[frame[1]] = (bool(frame[2]), frame[3])


def _judge(task, response, blocks, run):
    if run.broken or len(run.texts) < len(sources(task)):
        # That is no news about the response.
        return unknown("abstained", "The tests of this task cannot be run.")
    texts = [text for source in run.texts for text in source]
    total = len(texts)
    shown = sum(len(source) for source in run.texts[: len(task.visible_tests)])
    details = [run.outcomes.get(i, (False, {"gone": True})) for i in range(total)]
    failing = [i for i, (good, _) in enumerate(details) if not good]
    if not failing:
        return Verdict(1.0, True, PASSED_FEEDBACK, "passed", total, total, True)
    if run.loaded is not None and run.loaded[0] != "loaded":
        status, text = load_error(response, blocks, run.loaded[1])
        if text.startswith("SyntaxError") and blocks == [(response, 0)]:
            # Prose without a code block, as far as anybody can tell.
            status, text = "no_answer", f"{NO_CODE_FEEDBACK}\n{text}"
        return Verdict(0.0, False, text, status, 0, total)
    first, passed = failing[0], total - len(failing)
    status, text = outcome(response, blocks, run.loaded, details[first][1])
    if details[first][1].get("gone"):
        status, text = _stop(run)
    visible_passed = first >= shown
    if visible_passed:
        text = HIDDEN_FEEDBACK
    else:
        text = f"Test failed: {cut(texts[first], TEST_CHARACTERS)}\n{text}"
    return Verdict(passed / total, False, text, status, passed, total, visible_passed)


def _stop(run):
    """(status, sentence) for a solution that ended before its tests did."""
    for job in (run.solution, run.tests):
        if job.end and job.end["killed"] in _STOPPED:
            return _STOPPED[job.end["killed"]]
    return "error", "Your code ended early."
