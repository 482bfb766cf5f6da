"""Runs unittest sources and pytest modules; tells of each test as it ends.

Runs inside the sandbox, either beside the solution or with proxies of it.
"""

import ast
import os
import sys
import tempfile
import types
from collections.abc import Callable

from rlvr_jax.envs.sandbox.child import describe, write_files

SAME = "__rlvr_same__"
_ASSERTIONS = (
    *("assertEqual", "assertAlmostEqual", "assertIn", "assertCountEqual"),
    *("assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual"),
    *("assertSequenceEqual", "assertMultiLineEqual"),
)

# What a suite calls for each test: (source's number, name, outcome, detail), outcome
# one of passed, failed, skipped.
Tell = Callable[[int, str, str, dict], None]


class Equalities(ast.NodeTransformer):
    """Replaces `assert a == b` by a call of SAME, which compares safely."""

    def visit_Assert(self, node):
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return node
        if not isinstance(test.ops[0], ast.Eq):
            return node
        operands = [test.left, *test.comparators]
        call = ast.Call(ast.Name(SAME, ast.Load()), operands, [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def guarded(source: str) -> ast.Module:
    """The tree of a test source whose equalities are compared by SAME."""
    return Equalities().visit(ast.parse(source))


def detail_of(error: BaseException) -> dict:
    """What feedback may say about an exception of a test."""
    known = getattr(error, "rlvr_detail", None)
    if isinstance(known, dict):
        return known
    told = getattr(error, "rlvr_remote", None)
    return {"error": tuple(told or describe(error))}


def run_unittest(
    number: int, code: types.CodeType, namespace: dict, tell: Tell
) -> None:
    """Runs the test cases that one source defines.

    Args:
        number: of the source.
        code: compiled source.
        namespace: where it runs.
        tell: see Tell.
    """
    import unittest

    exec(code, namespace)
    cases = [
        value
        for value in namespace.values()
        if isinstance(value, type)
        and issubclass(value, unittest.TestCase)
        and value.__module__ == namespace["__name__"]
    ]
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))
    suite.run(_result(number, tell))


def _result(number, tell):
    import unittest

    class Result(unittest.TestResult):
        """Tells of each test once, when it has stopped."""

        def startTest(self, test):
            super().startTest(test)
            self.outcome = ("failed", {})

        def stopTest(self, test):
            super().stopTest(test)
            name = f"{type(test).__name__}::{test._testMethodName}"
            tell(number, name, *self.outcome)

        def addSuccess(self, test):
            if not self.outcome[1]:
                self.outcome = ("passed", {})

        def addExpectedFailure(self, test, error):
            self.addSuccess(test)

        def addSkip(self, test, reason):
            self.outcome = ("skipped", {})

        def addFailure(self, test, error):
            self.outcome = ("failed", detail_of(error[1]))

        addError = addFailure

        def addSubTest(self, test, subtest, error):
            if error is not None:
                self.addFailure(test, error)

    return Result()


def guard_unittest(settle: Callable[[object, object], tuple]) -> None:
    """Makes unittest's equality assertions compare what `settle` returns."""
    import unittest

    def replace(name):
        original = getattr(unittest.TestCase, name)

        def assertion(self, first, second, *rest, **options):
            return original(self, *settle(first, second), *rest, **options)

        setattr(unittest.TestCase, name, assertion)

    for name in _ASSERTIONS:
        replace(name)


def run_pytest(sources: list[str], files: dict[str, str], tell: Tell) -> None:
    """Runs test modules with the pytest of the host.

    They lie in a new folder, where no earlier code can have left a conftest.py or a
    pytest.ini; the working folder stays, at the end of the path for imports.

    Args:
        sources: texts of the modules.
        files: of the task; a conftest.py among them counts.
        tell: see Tell; also called with the outcome "collected", and with "failed" and
            the name "" if a module cannot be imported.
    """
    import pytest

    folder = tempfile.mkdtemp(dir=os.getcwd())
    texts = {f"test_{number}.py": source for number, source in enumerate(sources)}
    kept = {name: text for name, text in files.items() if name == "conftest.py"}
    write_files({**texts, **kept, "pytest.ini": "[pytest]\n"}, folder)
    # They look at what tests leave behind, which costs as much as the tests.
    unwanted = ("cacheprovider", "faulthandler", "unraisableexception", "doctest")
    options = [f"-pno:{name}" for name in (*unwanted, "threadexception", "stepwise")]
    options += ["-q", "--capture=sys", "--import-mode=importlib"]
    options += [f"--rootdir={folder}", f"--confcutdir={folder}"]
    options += [f"-c{folder}/pytest.ini", f"--basetemp={folder}/temporary"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.append(os.getcwd())
    names = [f"{folder}/{name}" for name in texts]
    pytest.main([*options, *names], plugins=[_Recorder(tell)])


class _Recorder:
    def __init__(self, tell):
        self.tell = tell
        self.outcome = ("failed", {})

    def pytest_collection_finish(self, session):
        for item in session.items:
            self.tell(*_place(item.nodeid), "collected", {})

    def pytest_exception_interact(self, node, call, report):
        if not hasattr(report, "when"):  # a module that cannot be imported
            number, _ = _place(node.nodeid)
            self.tell(number, "", "failed", detail_of(call.excinfo.value))

    def pytest_runtest_logstart(self, nodeid, location):
        self.outcome, self.detail = ("failed", {}), {}

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            self.detail = detail_of(call.excinfo.value)

    def pytest_runtest_logreport(self, report):
        if report.outcome == "failed":
            self.outcome = ("failed", self.detail)
        elif report.outcome == "skipped":
            self.outcome = ("skipped", {})
        elif report.when == "call":
            self.outcome = ("passed", {})

    def pytest_runtest_logfinish(self, nodeid, location):
        self.tell(*_place(nodeid), *self.outcome)


def _place(nodeid):
    """(number of the source, name within it)."""
    file, _, name = nodeid.partition("::")
    digits = "".join(filter(str.isdigit, file.partition(".")[0]))
    return int(digits or 0), name
