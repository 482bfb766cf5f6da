"""The code verifier: which of its ways to run a program a task's tests need."""

from rlvr_jax.envs.code.calls import grade_calls
from rlvr_jax.envs.code.sources import NO_CODE_FEEDBACK, all_tests, framework
from rlvr_jax.envs.code.streams import grade_program
from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.sandbox import Cell, Limits
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.envs.verifier import SandboxVerifier
from rlvr_jax.tasks.records import Task


class CodeVerifier(SandboxVerifier):
    """Grades Python code.

    Args:
        workers, cache_size, allow_unsafe: see SandboxVerifier.
        limits: of the solution, all tests together; of whole programs, each test.
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
        total = len(all_tests(task))
        if reason := self._unscorable(task):
            return unknown("abstained", reason)
        if len(response) > self.max_characters:
            text = "Your answer is too long."
            return Verdict(0.0, False, text, "output_limit", 0, total)
        if not code_blocks(response):
            return Verdict(0.0, False, NO_CODE_FEEDBACK, "no_answer", 0, total)
        return super().grade(task, response)

    def _unscorable(self, task):
        """Why nobody's answer to this task can be graded, "" if it can."""
        tests = all_tests(task)
        if not tests:
            return "This task has no tests."
        try:
            kind = framework(task)
        except ValueError as error:
            return str(error)
        if kind == "streams":
            longest = max(len(given.encode()) for given, _ in tests)
            if longest > self.sandbox.scratch_bytes // 2:
                return f"A test's standard input is too long: {longest} bytes."
        elif kind:
            return f"Tests for {kind} cannot be graded yet."
        elif not task.entry_point and any("def check(" in test for test in tests):
            return "This task does not name its entry point."
        return ""

    def run(self, task: Task, response: str, cell: Cell) -> Verdict:
        blocks = code_blocks(response)
        if framework(task) == "streams":
            return grade_program(task, response, blocks, cell.solution, self.limits)
        verdict = grade_calls(task, response, blocks, cell, self.limits)
        return verdict or unknown("abstained", "The tests cannot be run.")
