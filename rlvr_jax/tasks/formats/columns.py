"""Reading one column of a row: ValueError says what was wanted.

`readers` adds the file and the line to these messages.
"""

import json
import math
from collections.abc import Collection


def text(row: dict, column: str) -> str:
    """A column that must hold a text with something in it."""
    value = any_text(row, column)
    if not value.strip():
        raise ValueError(f"column {column}: wanted a text that is not empty")
    return value


def any_text(row: dict, column: str) -> str:
    """A column that must hold a text, perhaps an empty one."""
    if not isinstance(row[column], str):
        raise ValueError(f"column {column}: wanted a text, got {row[column]!r:.80}")
    return row[column]


def optional_text(row: dict, column: str) -> str:
    """A column that may be missing or null, which reads as ""."""
    return "" if row.get(column) is None else any_text(row, column)


def first_text(row: dict, *columns: str) -> str:
    """The first of several spellings of a column that the row has."""
    return text(row, next(column for column in columns if column in row))


def scalar_text(row: dict, column: str) -> str:
    """A column that holds a text or a number, as a text; 3.0 reads as "3"."""
    value = row[column]
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"column {column}: wanted a text or a number, got {value!r:.80}"
        )
    return value.strip()


def decoded(row: dict, column: str) -> object:
    """A column that holds JSON text, or what such a text would hold."""
    value = row[column]
    return parse_json(value, column) if isinstance(value, str) else value


def parse_json(source: str, column: str) -> object:
    """JSON without NaN and infinities, which no test can be written with."""
    try:
        return json.loads(source, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"column {column}: not JSON: {error}") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


# Entries of `Task.metadata` that verifiers obey: a parser sets them, never a column.
OBEYED = ("preamble", "test_framework", "files", "parameters")


def others(row: dict, used: Collection[str]) -> dict:
    """Metadata: every column that the parser does not use, nulls left out.

    A column with a name out of `OBEYED` is kept as column_NAME.
    """
    return {
        f"column_{column}" if column in OBEYED else column: value
        for column, value in row.items()
        if column not in used and value is not None
    }


def prompt(row: dict) -> str | list[dict]:
    """The column `prompt`: a text, or messages that end with a request."""
    value = row["prompt"]
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return value
    raise ValueError(
        "column prompt: wanted a text or a list of messages"
        ' {"role": text, "content": text}'
    )


def _is_message(message: object) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
    )


def newlines(source: str) -> str:
    """Source text with the line ends that Python's own tools write."""
    return source.replace("\r\n", "\n")


def solved_share(value: object) -> float:
    """A difficulty as a number in [0, 1]: the share of attempts that solved the task.

    Higher is easier, as in Polaris.

    Args:
        value: a number in [0, 1], or a fraction such as "3/8".

    Raises:
        ValueError: it is neither.

    >>> solved_share("3/8")
    0.375
    """
    share = value
    if isinstance(value, str):
        upper, slash, lower = value.partition("/")
        try:
            share = int(upper) / int(lower) if slash else float(value)
        except (ValueError, ZeroDivisionError):
            share = None
    if isinstance(share, bool) or not isinstance(share, int | float):
        share = None
    if share is None or not 0 <= share <= 1:
        raise ValueError(
            "difficulty: wanted a number between 0 and 1 or a fraction such as '3/8',"
            f" the share of attempts that solved the task; got {value!r:.80}"
        )
    return float(share)
