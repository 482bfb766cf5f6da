"""The code verifier: which of its ways to run a program a task's tests need."""

import ast
from collections.abc import Sequence

from rlvr_jax.envs.code import inventory
from rlvr_jax.envs.code.calls import grade_calls
from rlvr_jax.envs.code.needs import one_jail
from rlvr_jax.envs.code.sources import NO_CODE_FEEDBACK, all_tests, framework
from rlvr_jax.envs.code.streams import grade_program
from rlvr_jax.envs.code.together import grade_together
from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.reference import reference
from rlvr_jax.envs.sandbox import Cell, Limits, packages
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.envs.verifier import SandboxVerifier
from rlvr_jax.tasks.records import Task


class CodeVerifier(SandboxVerifier):
    """Grades Python code by the tests of its task, of one of these kinds.

    Asserts: sources, each assert in them being one test, and a source without any
    being one that passes if it runs to its end. A source that defines `check` has it
    called with the entry point. An entry point "Class.method" is called as `method`,
    each time on a fresh instance. `setup` runs before the tests;
    `metadata["preamble"]` (imports and helpers of the prompt) runs before the solution
    and before the setup. Programs: pairs of standard input and output, each run in a
    process of its own; `same_output` says what counts as equal. Test modules
    (`metadata["test_framework"]` "pytest", run by the pytest of the host) and test
    cases ("unittest"): each function or method is one test, whatever its parameters;
    tests marked as skipped do not count. `metadata["files"]`, {relative path: text},
    lie in the working folder of solution and tests. A test source is visible if it is
    among `visible_tests`.

    What is promised. Tests and solution run in two containers, where calls leave one
    and plain data comes back: a solution cannot see the tests, end their run, or
    answer with an object that claims to be equal. The outputs that programs should
    have never enter a container. Where tests handle objects of the solution (decided
    by the task and its reference, not by the response), and for unittest, both run in
    one process: forging is made hard there but is not excluded, see
    `sandbox/together.py`. Test modules and test cases see the host's installed
    packages, read-only; other kinds the standard library alone.

    The code of a response is the last block that defines the entry point, else the
    longest that parses, else the last; without a fence it is the whole text. Reward is
    the fraction of tests passed. Tests that cannot run here are abstained.

    Args:
        workers, cache_size, allow_unsafe, require: see SandboxVerifier.
        limits: of the solution, all tests together; of programs, each test. By default
            10 s of processor time: one reference of MBPP takes 6.5.
        max_characters: a longer response is not run: status output_limit, reward 0.
        packages: True shows the host's packages to all kinds of tasks; False leaves
            asserts and programs the standard library alone, and starts faster.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        cache_size: int = 65536,
        allow_unsafe: bool = False,
        require: Sequence[str] = (),
        limits: Limits | None = None,
        max_characters: int = 65536,
        packages: bool = False,
    ) -> None:
        self.max_characters = max_characters
        self.packages = packages
        self._packaged_cells: dict[int, Cell] = {}
        # What is known of tasks, by id.
        self._together: dict[str, bool] = {}
        self._plain_references: dict[str, bool] = {}
        super().__init__(
            limits=limits or Limits(cpu_seconds=10.0, wall_seconds=40.0),
            workers=workers,
            cache_size=cache_size,
            allow_unsafe=allow_unsafe,
            require=require,
        )

    def grade(self, task: Task, response: str) -> Verdict:
        if reason := self._unscorable(task):
            return unknown("abstained", reason)
        kind = framework(task)
        tests = tuple(all_tests(task))
        total = len(tests if kind == "streams" else inventory.items(tests, kind))
        if len(response) > self.max_characters:
            text = "Your answer is too long."
            return Verdict(0.0, False, text, "output_limit", 0, total)
        if not code_blocks(response):
            return Verdict(0.0, False, NO_CODE_FEEDBACK, "no_answer", 0, total)
        return super().grade(task, response)

    def _unscorable(self, task):
        """Why nobody's answer to this task can be graded, "" if it can."""
        tests = tuple(all_tests(task))
        if not tests:
            return "This task has no tests."
        try:
            kind = framework(task)
            found = kind == "streams" or inventory.items(tests, kind)
            ast.parse(f"{task.metadata.get('preamble', '')}\n{task.setup}")
        except SyntaxError as error:
            return f"The tests of this task cannot be run: {error}."
        except ValueError as error:
            return str(error)
        if not found:
            return f"This task's source holds no test for {kind}."
        if not _placed(task.metadata.get("files", {}), self.sandbox.scratch_bytes // 4):
            return "Files of a task must be short texts under relative paths."
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
        if self.packages or kind in ("pytest", "unittest"):
            cell = self._packaged(cell)
        if kind == "streams":
            return grade_program(task, response, blocks, cell.solution, self.limits)
        if task.id not in self._together:
            self._together[task.id] = one_jail(task)
        if not self._together[task.id]:
            verdict, objects = grade_calls(task, response, blocks, cell, self.limits)
            if not objects or self._data_is_enough(task, cell, objects):
                return verdict
        return grade_together(task, response, blocks, cell.solution, self.limits)

    def _data_is_enough(self, task, cell, objects):
        """Whether a task's own answer passes its tests by calls with plain data.

        Without an answer, whether it is the response that brought the objects. So no
        response can choose the weaker promise by what its entry point returns.
        """
        if not task.answer:
            return objects == "answer"
        if task.id not in self._plain_references:
            response = reference(task)
            blocks = code_blocks(response)
            verdict, _ = grade_calls(task, response, blocks, cell, self.limits)
            self._plain_references[task.id] = verdict.solved
        return self._plain_references[task.id]

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
        for container in self._containers():
            container.stop()
        super().close()


def _placed(files, room):
    """Whether files are texts that fit into the scratch folder and stay in it."""
    return sum(len(text) for text in files.values()) <= room and all(
        not path.startswith("/") and ".." not in path.split("/") for path in files
    )
