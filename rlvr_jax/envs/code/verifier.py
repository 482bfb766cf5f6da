"""The code verifier: which of its ways to run a program a task's tests need."""

from rlvr_jax.envs.code import inventory
from rlvr_jax.envs.code.calls import grade_calls
from rlvr_jax.envs.code.needs import one_jail
from rlvr_jax.envs.code.sources import NO_CODE_FEEDBACK, all_tests, framework
from rlvr_jax.envs.code.streams import grade_program
from rlvr_jax.envs.code.together import grade_together
from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.sandbox import Cell, Limits, packages
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
        self._packaged_cells: dict[int, Cell] = {}
        super().__init__(
            workers=workers, cache_size=cache_size, allow_unsafe=allow_unsafe
        )

    def grade(self, task: Task, response: str) -> Verdict:
        if reason := self._unscorable(task):
            return unknown("abstained", reason)
        kind = framework(task)
        tests = all_tests(task)
        total = len(tests if kind == "streams" else inventory.items(tests, kind))
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
            found = kind == "streams" or inventory.items(tests, kind)
        except SyntaxError as error:
            return f"The tests of this task cannot be run: {error}."
        except ValueError as error:
            return str(error)
        if not found:
            return f"This task's source holds no test for {kind}."
        if kind == "streams":
            longest = max(len(given.encode()) for given, _ in tests)
            if longest > self.sandbox.scratch_bytes // 2:
                return f"A test's standard input is too long: {longest} bytes."
        elif kind == "pytest" and not packages.has_pytest():
            return "Test modules need pytest on this host; `pip install pytest`."
        elif not task.entry_point and any("def check(" in test for test in tests):
            return "This task does not name its entry point."
        return ""

    def run(self, task: Task, response: str, cell: Cell) -> Verdict:
        blocks, kind = code_blocks(response), framework(task)
        if kind == "streams":
            return grade_program(task, response, blocks, cell.solution, self.limits)
        if kind:
            cell = self._packaged(cell)
        verdict = None
        if not one_jail(task):
            verdict = grade_calls(task, response, blocks, cell, self.limits)
        if verdict is None:
            verdict = grade_together(task, response, blocks, cell.solution, self.limits)
        return verdict

    def _packaged(self, cell):
        """A cell's second self, with the host's packages; made when needed."""
        if id(cell) not in self._packaged_cells:
            self._packaged_cells[id(cell)] = packages.packages_cell(self.sandbox)
        return self._packaged_cells[id(cell)]

    def describe(self) -> dict:
        found = super().describe()
        containers = self._containers()
        found["containers_replaced"] += sum(c.replaced for c in containers)
        return found

    def _containers(self):
        cells = self._packaged_cells.values()
        return [c for cell in cells for c in (cell.solution, cell.tests)]

    def close(self) -> None:
        super().close()
        for container in self._containers():
            container.stop()
