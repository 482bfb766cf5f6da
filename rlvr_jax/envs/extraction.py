"""Finding the program in a response. Cutting is done outside the sandbox, by lines;
choosing needs a parser, which untrusted text may attack, so it is done inside.
"""

import ast
import re

_OPENING = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")
MAX_BLOCKS = 32


def code_blocks(response: str) -> list[tuple[str, int]]:
    """The fenced blocks of a response, or the whole of it when there is no fence.

    Args:
        response: the policy's text. Fences are three or more ` or ~, with any language
            tag; a fence that is never closed runs to the end.

    Returns:
        (source, line) pairs in order, at most the last MAX_BLOCKS; `line` is how many
        lines of the response stand before the source's first. Empty for blank text.
    """
    blocks, body, fence, start = [], [], "", 0
    lines = response.split("\n")
    for number, line in enumerate(lines):
        if fence:
            closing = line.strip()
            if closing.startswith(fence) and not closing.strip(fence[0]):
                blocks.append(("\n".join(body), start))
                body, fence = [], ""
            else:
                body.append(line)
        elif match := _OPENING.match(line):
            fence, start = match.group(1), number + 1
    if fence:
        blocks.append(("\n".join(body), start))
    if not blocks:
        blocks = [(response, 0)]
    return [block for block in blocks if block[0].strip()][-MAX_BLOCKS:]


def choose(sources: list[str], entry_point: str) -> int:
    """Which of several blocks is the answer.

    Args:
        sources: candidate sources, in the order of the response; at least one.
        entry_point: name of the function wanted, or "Class.method"; "" if unknown.

    Returns:
        Index of the last block that defines the entry point (of a method, its class)
        at its top level, else of the longest one that parses, else of the last.
    """
    wanted = entry_point.partition(".")[0]
    if len(sources) == 1:
        return 0
    parsed = [_parse(source) for source in sources]
    for index in reversed(range(len(sources))):
        if wanted and wanted in _top_level_names(parsed[index]):
            return index
    whole = [index for index, tree in enumerate(parsed) if tree is not None]
    if whole:
        return max(whole, key=lambda index: len(sources[index]))
    return len(sources) - 1


def _parse(source):
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _top_level_names(tree):
    names = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return names
