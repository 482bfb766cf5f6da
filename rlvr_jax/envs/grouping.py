"""Sets, lists, tuples, intervals, unions and matrices, split into their items."""

import dataclasses
import re

SET, UNION = "set", "union"
MAX_ITEMS = 32
_MATRIX = re.compile(r"\\begin\s*\{([pb]?)matrix\}(.*)\\end\s*\{\1matrix\}$", re.DOTALL)
_AND = re.compile(
    r",?\s*(?:\\(?:text|mbox|mathrm)\s*\{\s*(?:and|or)\s*\}|(?<=\s)(?:and|or)(?=\s))"
)
_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|.", re.DOTALL)
_OPEN = {"(": ")", "[": "]", "\\{": "\\}", "\\langle": "\\rangle", "{": "}"}
_CLOSE = {")", "]", "\\}", "\\rangle", "}"}


@dataclasses.dataclass(frozen=True)
class Group:
    """Several things in one answer.

    Args:
        kind: SET and UNION have no order; the others are named by their brackets.
        items: texts, at least one.
    """

    kind: str
    items: tuple[str, ...]


def group(text: str) -> Group | None:
    """The group that a whole text is, or None for a single thing.

    Args:
        text: cleaned LaTeX. A bare list, "1, 2 and 3", is a set; "a \\pm b" is a set of
            two. (a, b) may be a pair or an interval: it is the same as itself.
    """
    text = text.strip()
    if match := _MATRIX.match(text):
        rows = [row for row in re.split(r"\\\\", match.group(2)) if row.strip()]
        cells = [cell for row in rows for cell in row.split("&")]
        return _made(f"matrix of {len(rows)}", cells)
    unions = _split(text, {"\\cup"})
    if len(unions) > 1:
        return _made(UNION, unions)
    listed = _split(_AND.sub(",", text), {",", ";"})
    listed = [item for item in listed if item.strip()]
    if len(listed) > 1:
        return _made(SET, listed)
    ratio = _split(text, {":"})
    if len(ratio) > 1:
        return _made("ratio", ratio)
    if ends := _brackets(text):
        left, right, inner = ends
        items = [item for item in _split(inner, {",", ";"}) if item.strip()]
        if left == "\\{":
            return _made(SET, items) if not re.search(r":|\\mid|\|", inner) else None
        if len(items) == 1 and (left, right) == ("(", ")"):
            return group(inner)
        return _made(left + right, items) if len(items) > 1 else None
    if "\\pm" in text and len(_split(text, {"\\pm"})) == 2:
        return _made(SET, [text])
    return None


def _made(kind, items):
    """A group with "a \\pm b" as two items, or None for too many."""
    if kind == SET:
        items = [one for item in items for one in _both_signs(item)]
    items = [item.strip() for item in items]
    return Group(kind, tuple(items)) if 0 < len(items) <= MAX_ITEMS else None


def _both_signs(item):
    parts = _split(item, {"\\pm"})
    if len(parts) != 2:
        return [item]
    before, after = parts
    plus = "+" if before.strip() else ""
    return [f"{before}{plus}{after}", f"{before}-{after}"]


def _split(text, marks):
    """`text` cut at marks that stand in no bracket."""
    parts, start, depth = [], 0, 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth -= 1
        elif token in marks and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    parts.append(text[start:])
    return parts


def _brackets(text):
    """(opening, closing, content) if one pair of brackets holds the whole text."""
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) < 2 or tokens[0].group() not in ("(", "[", "\\{", "\\langle"):
        return None
    depth = 0
    for match in tokens:
        token = match.group()
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth <= 0:
            break
    if match is not tokens[-1] or depth < 0:
        return None
    left, right = tokens[0].group(), tokens[-1].group()
    if right not in ({")", "]"} if left in ("(", "[") else {_OPEN[left]}):
        return None
    return left, right, text[tokens[0].end() : match.start()]
