"""What the policy reads about a failed test: short, and without host details."""

import re

from rlvr_jax.envs.verdict import cut

TEST_CHARACTERS = 400
VALUE_CHARACTERS = 200
_LINE_CHARACTERS = 120
# "Failed" is pytest's.
_STATUSES = {"MemoryError": "memory", "AssertionError": "failed", "Failed": "failed"}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def load_error(response: str, blocks: list, frame: object) -> tuple[str, str]:
    """(status, text) of a solution that failed before its first call.

    Args:
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        frame: what the child said; not trusted, checked for its shape.
    """
    if not (isinstance(frame, tuple) and len(frame) == 5):
        return "error", "Your code ended early."
    _, chosen, name, message, lines = frame
    return _error(response, blocks, chosen, (name, message, lines))


def outcome(
    response: str, blocks: list, loaded: tuple | None, detail: dict
) -> tuple[str, str]:
    """(status, text) of one failed test.

    Args:
        response, blocks: see load_error.
        loaded: the child's frame ("loaded", index of the block), not trusted.
        detail: what the test's container recorded: "expected" and "actual" texts, or
            "error", or nothing; not trusted either, as it may repeat the child.
    """
    if "error" in detail:
        chosen = loaded[1] if loaded and len(loaded) == 2 else None
        return _error(response, blocks, chosen, detail["error"])
    if "actual" in detail:
        expected, actual = (
            cut(_ADDRESS.sub("0x...", _text(detail.get(name))), VALUE_CHARACTERS)
            for name in ("expected", "actual")
        )
        return "failed", f"Expected: {expected}\nActual: {actual}"
    return "failed", "The condition is false."


def _error(response, blocks, chosen, error):
    if not (isinstance(error, tuple) and len(error) == 3):
        return "error", "Your code ended early."
    name, message, lines = error
    name = cut(_text(name), VALUE_CHARACTERS)
    message = cut(_ADDRESS.sub("0x...", _text(message)), VALUE_CHARACTERS)
    parts = [f"{name}: {message}" if message else name]
    if type(chosen) is int and 0 <= chosen < len(blocks) and isinstance(lines, list):
        before = blocks[chosen][1]
        text = response.split("\n")
        for line in lines[-3:]:
            parts += _frame_line(line, before, text)
    status = _STATUSES.get(name, "error")
    return status, "\n".join(parts)


def _text(value):
    """A text as it is; of anything else, which may be endless to print, its type."""
    return value if type(value) is str else type(value).__name__


def _frame_line(line, before, text):
    """One frame as "  line 7, in f: source", counted in lines of the response."""
    if not (isinstance(line, tuple) and len(line) == 2 and type(line[0]) is int):
        return []
    number = line[0] + before
    if not 0 < number <= len(text):
        return []
    place = f", in {cut(_text(line[1]), 40)}" if line[1] else ""
    return [
        f"  line {number}{place}: {cut(text[number - 1].strip(), _LINE_CHARACTERS)}"
    ]
