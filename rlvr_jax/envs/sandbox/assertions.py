"""Counting asserts: test sources are rewritten so that each assert is one test.

Runs inside the sandbox, in the container of the tests, away from the solution.
"""

import ast
import builtins

CHECK = "__rlvr_check__"
FAIL = "__rlvr_fail__"


class Counter(ast.NodeTransformer):
    """Replaces each assert by a recorded check that does not stop the others.

    Asserts of a constant (`assert True`) are left alone and not counted.

    Args:
        source: the text whose tree is visited.
        first: number of its first assert.
    """

    def __init__(self, source: str, first: int) -> None:
        self.first = first
        # Columns are counted in bytes. ast.get_source_segment would split the source
        # again for each assert.
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = text.encode("utf-8", "surrogatepass").split(b"\n")
        self.texts: list[str] = []

    def visit_Assert(self, node):
        if isinstance(node.test, ast.Constant):
            return node
        place = {name: getattr(node, name) for name in node._attributes}

        def call(function, arguments):
            target = ast.Name(function, ast.Load(), **place)
            return ast.Expr(ast.Call(target, arguments, [], **place), **place)

        site = ast.Constant(self.first + len(self.texts), **place)
        self.texts.append(self._text(node))
        operands = [node.test]
        compares = isinstance(node.test, ast.Compare)
        if compares and len(node.test.ops) == 1 and type(node.test.ops[0]) is ast.Eq:
            operands = [node.test.left, *node.test.comparators]
        name = "__rlvr_error__"
        failed = call(FAIL, [site, ast.Name(name, ast.Load(), **place)])
        anything = ast.Name("BaseException", ast.Load(), **place)
        handler = ast.ExceptHandler(anything, name, [failed], **place)
        return ast.Try([call(CHECK, [site, *operands])], [handler], [], [], **place)

    def _text(self, node):
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode("utf-8", "surrogatepass")


def rewrite(source: str, first: int) -> tuple[ast.Module, list[str]]:
    """One test source with its asserts counted.

    Args:
        source: Python source.
        first: number of its first test.

    Returns:
        The tree to run, and the text of each of its asserts.
    """
    tree = ast.parse(source)
    counter = Counter(source, first)
    return counter.visit(tree), counter.texts


def free_names(sources: list[str]) -> set[str]:
    """Names that sources read and that nobody but a solution can define.

    Args:
        sources: Python sources that share one namespace.

    Returns:
        Names read somewhere and bound nowhere in the sources.
    """
    read, bound = set(), set(dir(builtins))
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                bound.add(node.name)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, ast.ExceptHandler) and node.name:
                bound.add(node.name)
    return read - bound
