"""What a forked child does with a solution and its tests in one process.

Runs inside the sandbox. Needed where tests handle objects of the solution, and by
unittest. Its promise is weaker than that of two containers. Each of these is no pass:
an early end (sys.exit, os._exit, atexit), output that looks like results, objects that
equal everything, patched builtins, unittest or pytest, and reading the tests while the
solution is loaded. Not covered: a solution that walks frames or objects of the garbage
collector to the harness, or that reads and writes its pipe in the harness's place.
"""

import builtins
import operator
import os
import sys
import types

from rlvr_jax.envs import extraction
from rlvr_jax.envs.sandbox import assertions, child, suites, tester
from rlvr_jax.envs.sandbox.integrity import Comparison, Mismatch, Seal, hide_harness

# Looked up before untrusted code runs, which may patch the modules.
_exit = os._exit


def run_together(job: dict, channel: child.Channel) -> None:
    """Loads one solution, then receives tests and runs them beside it.

    Tells of each test by a frame ("result", nonce, source's number, name, outcome,
    detail), and of the end by ("done", nonce, what was tampered with or "").
    """
    child.write_files(job["files"])
    comparison = Comparison()
    _prepare(job["framework"], comparison)
    seal = Seal(job["framework"])
    hide_harness()
    chosen = extraction.choose(job["candidates"], job["entry_point"])
    module = _load(job, chosen, channel)
    if module is None:
        return
    tampered = [seal.broken()]
    channel.send(("loaded", job["nonce"], chosen))
    tests = channel.receive()
    # A trace function would be called inside the harness.
    sys.settrace(None)
    sys.setprofile(None)
    comparison.allow_matchers(tests["sources"])

    def tell(*result):
        tampered.append(seal.broken() or _tracing())
        channel.send(("result", tests["nonce"], *result))

    _RUNNERS[job["framework"]](job, tests, module, comparison, tell)
    tampered.append(seal.broken())
    channel.send(("done", tests["nonce"], next(filter(None, tampered), "")))
    _exit(0)


def _tracing():
    return "sys.settrace" if sys.gettrace() or sys.getprofile() else ""


def _prepare(framework, comparison):
    """Imports the test library and makes its equality safe, before it is sealed."""

    def same(left, right):
        left, right = comparison.settle(left, right)
        if not operator.eq(left, right):
            raise Mismatch(tester.short(left), tester.short(right))

    setattr(builtins, suites.SAME, same)
    if framework:
        import unittest.mock  # noqa: F401

        suites.guard_unittest(comparison.settle)


def _load(job, chosen, channel):
    """The solution's module; None, and told of, if it cannot be loaded."""
    module = types.ModuleType("solution")
    names = ("solution", "__main__", "__test__")
    sys.modules.update(dict.fromkeys(names, module))
    source = job["candidates"][chosen]
    if job["framework"] == "pytest":
        child.write_files({"solution.py": source})
        module.__file__ = os.path.abspath("solution.py")
    try:
        for text, file in ((job["preamble"], "<preamble>"), (source, _FILE)):
            exec(compile(text, file, "exec"), module.__dict__)
    except BaseException as error:
        channel.send(("load_error", chosen, *child.describe(error)))
        return None
    return module


_FILE = child.SOLUTION_FILE


def _namespace(job, tests, module, *, whole):
    """Names for the tests: no solution can replace a builtin or a module in them."""
    namespace = {"__name__": "tests", "__builtins__": builtins}
    given = [] if whole else [job["preamble"]]
    free = assertions.free_names([*given, tests["setup"], *tests["sources"]])
    owner, _, entry_point = job["entry_point"].rpartition(".")
    for name in free | ({entry_point} - {""}):
        if name in sys.stdlib_module_names and name != entry_point:
            namespace[name] = __import__(name)
        elif name in vars(module):
            namespace[name] = vars(module)[name]
    if owner:

        def method(*arguments, **keywords):
            instance = vars(module)[owner]()
            return getattr(instance, entry_point)(*arguments, **keywords)

        namespace[entry_point] = method
    return namespace


class _Record(tester.Record):
    def __init__(self, comparison):
        super().__init__()
        self.settle = comparison.settle

    def check(self, site, left, *right):
        if right:
            left, other = self.settle(left, right[0])
            right = (other,)
        super().check(site, left, *right)


def _run_asserts(job, tests, module, comparison, tell):
    namespace = _namespace(job, tests, module, whole=False)
    entry_point = job["entry_point"].rpartition(".")[2]
    target = namespace.get(entry_point)
    record = _Record(comparison)
    setup = compile(job["preamble"] + "\n" + tests["setup"], "<setup>", "exec")
    stopped = tester.run_source(setup, "", namespace)
    # The preamble's own definition must not hide the solution.
    if target is not None:
        namespace[entry_point] = target
    count = 0
    for number, source in enumerate(tests["sources"]):
        tree, texts = assertions.rewrite(source, count)
        sites = range(count, count + max(len(texts), 1))
        count = sites.stop
        namespace[assertions.CHECK] = record.check
        namespace[assertions.FAIL] = record.fail
        code = compile(tree, "<tests>", "exec")
        ended = stopped or tester.run_source(code, entry_point, namespace)
        if not texts and ended is None:
            record.runs[sites[0]] = 1
        for site in sites:
            detail = record.failures.get(site)
            passed = detail is None and record.runs.get(site, 0) > 0
            outcome = "passed" if passed else "failed"
            tell(number, str(site - sites.start), outcome, detail or ended or {})


def _run_unittest(job, tests, module, comparison, tell):
    for number, source in enumerate(tests["sources"]):
        namespace = _namespace(job, tests, module, whole=True)
        tree = suites.guarded(f"{tests['setup']}\n{source}")
        code = compile(tree, "<tests>", "exec")
        try:
            suites.run_unittest(number, code, namespace, tell)
        except BaseException as error:
            tell(number, "", "failed", suites.detail_of(error))


def _run_pytest(job, tests, module, comparison, tell):
    import ast

    sources = [ast.unparse(suites.guarded(source)) for source in tests["sources"]]
    # The solution may have changed them while it was loaded.
    child.write_files(job["files"])
    suites.run_pytest(sources, job["files"], tell)


_RUNNERS = {"": _run_asserts, "unittest": _run_unittest, "pytest": _run_pytest}
