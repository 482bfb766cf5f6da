"""Functions and methods: the tests in one container, the solution in another."""

from rlvr_jax.envs.code import inventory
from rlvr_jax.envs.code.reports import Report, verdict_of
from rlvr_jax.envs.code.sources import STOPPED, all_tests, framework
from rlvr_jax.envs.sandbox import (
    Cell,
    ContainerLost,
    Job,
    Limits,
    solution_job,
    tests_job,
    wait_for,
)
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.tasks.records import Task


def grade_calls(
    task: Task, response: str, blocks: list, cell: Cell, limits: Limits
) -> tuple[Verdict, str]:
    """Runs asserts, or pytest modules, against the solution in the other container.

    Args:
        task: its tests are source texts.
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        cell: the two containers; those of pytest modules hold pytest.
        limits: of the solution, all tests together.

    Returns:
        The verdict, and what had to pass that is no plain data: "answer" (of the entry
        point), "other" (an argument, or what another of the solution's names gave) or
        "". It counts as a failure in the verdict.
    """
    kind, preamble = framework(task), task.metadata.get("preamble", "")
    report = Report(inventory.items(tuple(all_tests(task)), kind))
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
        modules=kind == "pytest",
    )
    run = Run(cell, solution, tests, report)
    run.drive()
    if run.broken or not report.complete:
        # That is no news about the response.
        return unknown("abstained", "The tests of this task cannot be run."), ""
    report.loaded, report.stopped = run.loaded, run.stop()
    objects = "other" if run.unsupported else "answer" if run.opaque else ""
    return verdict_of(task, response, blocks, report), objects


class Run:
    """One solution and its tests, in two containers, relayed from here.

    Args:
        cell: the two containers.
        solution, tests: their jobs.
        report: takes the results.
    """

    def __init__(self, cell: Cell, solution: dict, tests: dict, report: Report) -> None:
        self.report = report
        self.solution = Job(cell.solution, solution)
        try:
            self.tests = Job(cell.tests, tests)
        except ContainerLost:
            cell.solution.spoiled = True
            raise
        self.loaded: tuple | None = None
        self.asked: tuple | None = None  # a call that the solution has to answer
        self.waiting = False  # the solution has it
        self.broken = False  # the tests themselves cannot run here
        self.unsupported = False  # they need the solution beside them
        self.opaque = False  # an answer was no plain data

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
        shape = (frame[0], len(frame)) if isinstance(frame, tuple) and frame else ()
        if self.loaded is None:
            loaded = shape[:1] == ("loaded",)
            self.loaded = frame if loaded else ("load_error", frame)
        elif self.waiting and shape in (("value", 3), ("opaque", 2), ("error", 5)):
            self.opaque = self.opaque or shape[0] == "opaque"
            self._answer(frame)

    def _hear_tests(self, frame):
        if frame[0] == "call":
            self.asked = frame[1:]
        elif frame[0] == "test":
            _, number, passed, detail = frame
            item = self.report.items[number]
            result = "passed" if passed else "failed"
            self.report.add(item.source, item.name, result, detail)
        elif frame[0] == "result":
            self.report.add(*frame[1:])
        elif frame[0] in ("broken", "unsupported"):
            setattr(self, frame[0], True)
        elif frame[0] == "ready":
            self.report.complete = True

    def stop(self) -> tuple[str, str]:
        """(status, sentence) for a solution that ended before its tests did."""
        for job in (self.solution, self.tests):
            if job.end and job.end["killed"] in STOPPED:
                return STOPPED[job.end["killed"]]
        return "error", "Your code ended early."
