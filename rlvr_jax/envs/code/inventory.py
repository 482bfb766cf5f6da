"""Which tests a source holds, known from its text alone: what must have been run."""

import ast
import dataclasses
import functools
import math

from rlvr_jax.envs.sandbox import assertions

_SKIPS = ("skip", "skipif", "skipIf", "skipUnless", "xfail")


@dataclasses.dataclass(frozen=True)
class Item:
    """One test.

    Args:
        source: number of its source.
        name: "f" or "Class::f", without parameters; of asserts their number.
        text: what feedback shows of it.
        runs: how often it runs, with one set of parameters each; 0 if unknown.
    """

    source: int
    name: str
    text: str
    runs: int = 1


@functools.lru_cache(maxsize=4096)
def items(sources: tuple[str, ...], framework: str) -> list[Item]:
    """The tests of sources, in their order.

    Args:
        sources: test sources.
        framework: "" (asserts; a source without any is one test), "unittest" or
            "pytest", of which tests marked as skipped or failing are left out.

    Raises:
        SyntaxError: a source is no Python.
    """
    found = []
    for number, source in enumerate(sources):
        if framework:
            functions = _functions(ast.parse(source), framework)
            found += [
                Item(number, name, ast.get_source_segment(source, node) or name, runs)
                for name, (node, runs) in functions.items()
            ]
        else:
            _, texts = assertions.rewrite(source, 0)
            found += [
                Item(number, str(i), text) for i, text in enumerate(texts or [source])
            ]
    return found


def _functions(tree, framework):
    """{name: (node, runs)}; of two of a name the later one, as Python has it."""
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not _marked(node):
            if _holds_tests(node, classes, framework):
                outer = _runs(node, constants)
                for method in _methods(node, classes):
                    runs = outer * _runs(method, constants)
                    found[f"{node.name}::{method.name}"] = (method, runs)
        elif framework == "pytest" and _is_test(node):
            found.pop(node.name, None)
            found[node.name] = (node, _runs(node, constants))
    return {name: item for name, item in found.items() if not _marked(item[0])}


def _is_test(node):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and node.name.startswith("test")


def _holds_tests(node, classes, framework):
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name.endswith("TestCase"):
            return True
        if name in classes and _holds_tests(classes[name], classes, "unittest"):
            return True
    return framework == "pytest" and node.name.startswith("Test")


def _methods(node, classes):
    """Test methods of a class, the inherited ones included."""
    methods = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            methods |= {m.name: m for m in _methods(classes[base.id], classes)}
    methods |= {m.name: m for m in node.body if _is_test(m)}
    return list(methods.values())


def _marked(node):
    """Whether it is marked as skipped, or as one that fails."""
    return any(_last_name(mark) in _SKIPS for mark in node.decorator_list)


def _last_name(node):
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _runs(node, constants):
    """How many sets of parameters a function or class has, 0 if that is unknown."""
    return math.prod(
        _length(mark.args[1] if len(mark.args) > 1 else None, constants)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and _last_name(mark) == "parametrize"
    )


def _length(node, constants):
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    if isinstance(node, (ast.List, ast.Tuple)):
        starred = any(isinstance(item, ast.Starred) for item in node.elts)
        return 0 if starred else len(node.elts)
    return 0
