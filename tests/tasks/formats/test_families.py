"""Every family: recognised from its columns, and one clear line for any bad value."""

import dataclasses
import json

import pytest

from rlvr_jax.tasks import Task, read_tasks
from rlvr_jax.tasks.formats import FORMATS
from tests.tasks.formats.rows import FAMILIES

JUNK = (None, "", "x", "{", "[", 3, -1.5, True, [], [None], ["x"], {}, {"a": [1]})
EXAMPLES = [(name, row) for name, rows in FAMILIES.items() for row in rows]


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_format_has_an_example():
    assert FAMILIES.keys() == FORMATS.keys()


@pytest.mark.parametrize(("name", "row"), EXAMPLES)
def test_columns_name_the_format(tmp_path, name, row):
    path = write(tmp_path / "a.jsonl", row)
    (task,) = read_tasks(path)
    assert read_tasks(path, format=name) == [task]
    assert next(n for n in FORMATS if FORMATS[n].recognises(row)) == name
    assert task.kind in ("math", "code")
    assert task.tests[: len(task.visible_tests)] == task.visible_tests
    hash((task.id, task.answer, task.tests, task.entry_point, task.setup))


@pytest.mark.parametrize(("name", "row"), EXAMPLES)
def test_any_value_gives_a_task_or_names_its_line(tmp_path, name, row):
    refused = 0
    for column in row:
        for value in JUNK:
            path = write(tmp_path / "rows.jsonl", {**row, column: value})
            try:
                (task,) = read_tasks(path, format=name)
            except ValueError as error:
                assert str(error).startswith(f"{path}, line 1: "), error
                assert "\n" not in str(error)
                refused += 1
            else:
                assert isinstance(task, Task)
                assert task.prompt and isinstance(task.answer, str)
    assert refused >= len(JUNK) - 3  # at least one column is needed


@pytest.mark.parametrize(("name", "row"), EXAMPLES)
def test_each_needed_column_is_named_when_it_is_missing(tmp_path, name, row):
    for column in FORMATS[name].columns[0]:
        if column not in row:
            continue  # the family's other spelling
        short = {key: value for key, value in row.items() if key != column}
        path = write(tmp_path / "rows.jsonl", row, short)
        if not FORMATS[name].missing(short):
            continue  # math has an answer or a solution
        message = rf"line 2: format '{name}' wants the columns .*missing: \['"
        with pytest.raises(ValueError, match=message):
            read_tasks(path, format=name)


@pytest.mark.parametrize(
    # The columns of "task" are the fields of the record.
    ("name", "row"),
    [(name, row) for name, row in EXAMPLES if name != "task"],
)
def test_other_columns_are_metadata_and_command_nothing(tmp_path, name, row):
    extra = {"hint": "think", "shots": [1, {"a": 2}], "empty": None, "ID2": 0}
    orders = {"preamble": "import os", "test_framework": "unittest", "parameters": [1]}
    orders |= {"files": {"solution.py": "import os"}}
    path = write(tmp_path / "rows.jsonl", row)
    (plain,) = read_tasks(path, format=name)
    write(path, {**row, **extra, **orders})
    (task,) = read_tasks(path, format=name)
    extra.pop("empty")
    kept = {f"column_{column}": value for column, value in orders.items()}
    assert task.metadata == {**extra, **kept, **plain.metadata}
    assert dataclasses.replace(task, metadata=plain.metadata) == plain
