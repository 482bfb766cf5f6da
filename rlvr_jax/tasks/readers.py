"""Data set files as lists of `Task` records."""

import gzip
import json
import os
import pathlib
import zlib
from collections.abc import Iterator

from rlvr_jax.tasks.formats import FORMATS
from rlvr_jax.tasks.records import Task


def read_tasks(path: str | os.PathLike, format: str = "auto") -> list[Task]:
    """Reads a data set file, in the order of its rows.

    Args:
        path: JSON lines (.jsonl), the same gzipped (.jsonl.gz), one JSON list (.json)
            or Parquet (.parquet; needs pyarrow). Blank lines are skipped.
        format: a name of `formats.FORMATS`, such as "gsm8k", "math", "kodcode",
            "verl", "trl" or "task" (our own record, its field names as columns); or
            "auto": found from the columns of the first row.

    Returns:
        At least one task; ids are unique.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: it is a Parquet file and pyarrow is not installed.
        ValueError: the file cannot be read, is empty, or is of no known format; or a
            row is malformed. The message has the path and, for a row, its line,
            counted from 1 (in .json and .parquet files: the number of the row).
    """
    path = pathlib.Path(path)
    if format != "auto" and format not in FORMATS:
        raise ValueError(f"format must be one of {['auto', *FORMATS]}, got {format!r}")
    tasks: list[Task] = []
    lines: dict[str, str] = {}
    for place, row in _rows(path):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, {place}: wanted a JSON object, got {row!r:.80}")
        if format == "auto":
            format = _recognised(row, f"{path}, {place}")
        task = _parsed(row, format, place=place, path=path)
        if task.id in lines:
            raise ValueError(
                f"{path}, {place}: the id {task.id!r} stands on {lines[task.id]}"
                " already; wanted unique ids"
            )
        lines[task.id] = place
        tasks.append(task)
    if not tasks:
        raise ValueError(f"{path}: the data set is empty; wanted at least one row")
    return tasks


def _rows(path: pathlib.Path) -> Iterator[tuple[str, object]]:
    """Yields (place, row) for every row; place is "line 3" or "row 3"."""
    name = path.name.lower()
    if not name.endswith((".jsonl", ".jsonl.gz", ".json", ".parquet")):
        raise ValueError(
            f"{path}: wanted a file named .jsonl, .jsonl.gz, .json or .parquet"
        )
    if name.endswith(".parquet"):
        yield from _parquet_rows(path)
        return
    text = _content(path)
    if not name.endswith(".json"):
        # Not splitlines(): JSON texts may hold other line separators as they are.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"line {number}", _json(line, f"{path}, line {number}")
        return
    rows = _json(text, f"{path}")
    if not isinstance(rows, list):
        raise ValueError(f"{path}: wanted a JSON list of rows, got {rows!r:.80}")
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row


def _parquet_rows(path: pathlib.Path) -> Iterator[tuple[str, dict]]:
    """Yields (place, row); columns that hold nothing in a row are left out of it."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such data set file")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: reading Parquet needs pyarrow, which is not installed: run"
            " pip install 'rlvr_jax[parquet]', or write the rows as .jsonl"
        ) from error
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    # A table has its columns in every row; a missing one is a null.
                    present = {k: v for k, v in row.items() if v is not None}
                    yield f"row {number}", present
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: wanted a Parquet file: {error}") from error


def _content(path: pathlib.Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such data set file")
    try:
        content = path.read_bytes()
        if path.name.lower().endswith(".gz"):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: wanted a whole gzip file: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: wanted UTF-8 text: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from error


def _recognised(row: dict, where: str) -> str:
    for format, family in FORMATS.items():
        if family.recognises(row):
            return format
    wanted = "; ".join(
        f"{name}: {', '.join(family.columns[0])}" for name, family in FORMATS.items()
    )
    raise ValueError(
        f"{where}: no known format has the columns {sorted(row)}; wanted {wanted}"
    )


def _parsed(row: dict, format: str, *, place: str, path: pathlib.Path) -> Task:
    family = FORMATS[format]
    if missing := family.missing(row):
        wanted = " or ".join(str(list(some)) for some in family.columns)
        raise ValueError(
            f"{path}, {place}: format {format!r} wants the columns {wanted}; missing:"
            f" {missing}"
        )
    stem = path.name.split(".")[0]
    try:
        return family.parse(row, f"{stem}/{place.split()[1]}")
    except ValueError as error:
        raise ValueError(f"{path}, {place}: {error}") from error
