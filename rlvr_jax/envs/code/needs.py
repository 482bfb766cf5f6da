"""Whether tests can do with calls and plain data, or need the solution beside them."""

import ast
import re
import sys

from rlvr_jax.envs.code.sources import all_tests, framework
from rlvr_jax.envs.sandbox import assertions
from rlvr_jax.envs.sandbox.child import PRELUDE
from rlvr_jax.tasks.records import Task

# Tests with these look at what a call does to its own process.
_SIDE_EFFECTS = {
    *("capsys", "capfd", "capsysbinary", "caplog", "recwarn", "warns"),
    *("monkeypatch", "mock", "mocker", "patch", "tmp_path", "tmpdir", "open"),
    *("redirect_stdout", "redirect_stderr", "stdout", "stdin", "stderr"),
    *("environ", "asyncio", "getrefcount"),
}
_DATA = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_DATA_ATTRIBUTES = frozenset(name for kind in _DATA for name in dir(kind))


def one_jail(task: Task) -> bool:
    """Whether a task's tests have to run in one process with the solution.

    This is decided by the task alone: no response can choose the weaker promise.
    They have to for unittest; for tests that take attributes of the solution's values,
    use one of its names other than by a call, name a class of the solution, or look
    at side effects of its calls.

    Args:
        task: its tests are source texts.
    """
    kind = framework(task)
    if kind == "unittest":
        return True
    tests = all_tests(task)
    trees = [ast.parse(source) for source in [task.setup, *tests]]
    names = _solution_names(task, trees, kind)
    if any(_is_class(name, task) for name in names):
        return True
    return any(_handles_objects(tree, names) for tree in trees)


def _solution_names(task, trees, kind):
    own = task.entry_point.rpartition(".")[2]
    if kind == "pytest":
        found = {own}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module == "solution":
                    found |= {alias.asname or alias.name for alias in node.names}
                elif isinstance(node, ast.Import):
                    plain = [a.asname or a.name for a in node.names]
                    found |= {name for name in plain if name == "solution"}
        return found - {""}
    preamble = task.metadata.get("preamble", "")
    sources = [preamble, task.setup, *all_tests(task)]
    names = assertions.free_names(sources) - sys.stdlib_module_names - PRELUDE.keys()
    return (names | {own}) - {""}


def _is_class(name, task):
    pattern = rf"^class {re.escape(name)}\b"
    prompt = task.prompt if isinstance(task.prompt, str) else ""
    texts = (task.answer, prompt)
    return any(re.search(pattern, text, re.MULTILINE) for text in texts)


def _handles_objects(tree, names):
    """Whether a source does more with names than to call them for data."""
    called, results = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in names:
            called.add(id(node.func))
        if isinstance(node, ast.Assign) and _is_call(node.value, names):
            results |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return any(_is_more(node, names, called, results) for node in ast.walk(tree))


def _is_more(node, names, called, results):
    if isinstance(node, ast.Attribute):
        made = _is_call(node.value, names) or _name(node.value) in results
        foreign = made and node.attr not in _DATA_ATTRIBUTES
        return foreign or node.attr in _SIDE_EFFECTS
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        uncalled = node.id in names and id(node) not in called
        return uncalled or node.id in _SIDE_EFFECTS
    if isinstance(node, ast.arg):
        return node.arg in _SIDE_EFFECTS
    return isinstance(node, ast.Await)


def _name(node):
    return node.id if isinstance(node, ast.Name) else ""


def _is_call(node, names):
    return isinstance(node, ast.Call) and _name(node.func) in names
