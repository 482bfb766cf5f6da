"""Functions and methods: the tests in one container, the solution in another."""

from rlvr_jax.envs.code.sources import (
    HIDDEN_FEEDBACK,
    NO_CODE_FEEDBACK,
    PASSED_FEEDBACK,
    STOPPED,
    all_tests,
)
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
from rlvr_jax.tasks.records import Task


def grade_calls(
    task: Task, response: str, blocks: list, cell: Cell, limits: Limits
) -> Verdict | None:
    """Runs the asserts of a task against the solution in the other container.

    Args:
        task: its tests are source texts.
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        cell: the two containers.
        limits: of the solution, all tests together.

    Returns:
        The verdict; None if the tests need more than calls with plain data.
    """
    preamble = task.metadata.get("preamble", "")
    files = task.metadata.get("files", {})
    solution = solution_job(
        [source for source, _ in blocks],
        entry_point=task.entry_point,
        limits=limits,
        preamble=preamble,
        files=files,
    )
    tests = tests_job(
        all_tests(task),
        entry_point=task.entry_point.rpartition(".")[2],
        limits=limits,
        preamble=preamble,
        setup=task.setup,
        files=files,
    )
    run = Run(cell, solution, tests)
    run.drive()
    return None if run.unsupported else judge(task, response, blocks, run)


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
        self.unsupported = False  # they need the solution beside them
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
        elif frame[0] == "unsupported":
            self.unsupported = True
        elif frame[0] == "call":
            self.asked = frame[1:]
        elif frame[0] == "test":
            self.outcomes[frame[1]] = (bool(frame[2]), frame[3])


def judge(task: Task, response: str, blocks: list, run: "Run") -> Verdict:
    """The verdict of a run that has ended."""
    if run.broken or len(run.texts) < len(all_tests(task)):
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
        if job.end and job.end["killed"] in STOPPED:
            return STOPPED[job.end["killed"]]
    return "error", "Your code ended early."
