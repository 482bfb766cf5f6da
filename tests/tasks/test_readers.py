"""Data set files: every family's fields, and one clear line for each bad input."""

import dataclasses
import gzip
import json
import os
import sys
import types

import pytest

from rlvr_jax.tasks import Task, read_tasks

GSM8K = {"question": "Two and 1,232?\n", "answer": "2+1232=<<2+1232=1234>>\n#### 1,234"}
MBPP = {
    "task_id": 7,
    "text": "Write a function to double each number. ",
    "code": "def helper(x):\r\n  return x\r\n"
    "def twice(xs):\r\n  return [2*x for x in xs]",
    "test_setup_code": "unit = 1\r\n",
    "test_list": [
        "assert set(twice([1, unit])) == {2}",
        "assert twice([]) == []",
    ],
    "challenge_test_list": [],
}
HUMANEVAL = {
    "task_id": "HumanEval/999",
    "prompt": "import math\n\ndef inner(x):\n    return x\n\n\n"
    'def outer(x: int) -> int:\n    """Returns the inner value.\n'
    "    >>> outer(2)\n    2\n    >>> inner(2)\n    2\n    >>> outer(0.1)\n    0.1\n"
    '    >>> outer(4)\n    Four\n    >>> y = outer(5)\n    """\n',
    "entry_point": "outer",
    "canonical_solution": "    return inner(x)\n",
    "test": "def check(candidate):\n    assert candidate(inner(3)) == 3\n",
}
OWN = {
    "id": "mine/1",
    "kind": "programs",
    "prompt": [{"role": "user", "content": "f(1)=2"}],
    "tests": [[1, 2], [0, [1, 2]]],
    "visible_tests": [[1, 2]],
    "metadata": {"parameters": ["x"]},
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_gsm8k(tmp_path):
    other = {**GSM8K, "answer": "it is 3 #### 3 no\n####  -5 "}
    first, second = read_tasks(write(tmp_path / "grade.jsonl", GSM8K, other))
    assert (first.id, first.kind, first.answer) == ("grade/1", "math", "1,234")
    assert first.prompt.startswith("Two and 1,232?\n\nSolve the problem")
    assert "#### N" in first.prompt
    assert "1234" not in first.prompt
    assert first.metadata == {"solution": GSM8K["answer"]}
    assert second.answer == "-5"


def test_mbpp(tmp_path):
    (task,) = read_tasks(write(tmp_path / "m.jsonl", MBPP))
    assert (task.id, task.kind, task.entry_point) == ("mbpp/7", "code", "twice")
    assert task.tests == tuple(MBPP["test_list"])
    assert task.visible_tests == task.tests[:1]
    assert task.tests[0] in task.prompt
    assert task.tests[1] not in task.prompt
    assert "return" not in task.prompt
    assert task.setup == "unit = 1\n"
    assert "\r" not in task.answer
    namespace = {}
    exec("\n".join([task.answer, task.setup, *task.tests]), namespace)


def test_mbpp_entry_point_without_definition(tmp_path):
    row = {**MBPP, "code": "twice = lambda xs: [2*x for x in xs]"}
    (task,) = read_tasks(write(tmp_path / "m.jsonl", row))
    assert task.entry_point == "twice"


def test_humaneval(tmp_path):
    (task,) = read_tasks(write(tmp_path / "h.jsonl", HUMANEVAL))
    assert (task.id, task.kind) == ("HumanEval/999", "code")
    assert task.entry_point == "outer"
    assert HUMANEVAL["prompt"].rstrip() in task.prompt
    assert task.visible_tests == ("assert outer(2) == 2",)
    assert task.tests == ("assert outer(2) == 2", HUMANEVAL["test"])
    tests = "\n".join([*task.tests, f"check({task.entry_point})"])
    # A solution that leaves out the function it was given still meets its tests.
    exec(f"{task.metadata['preamble']}\ndef outer(x): return inner(x)\n{tests}", {})
    exec(f"{task.answer}\n{tests}", {})


def test_humaneval_with_bad_examples(tmp_path):
    row = {**HUMANEVAL, "prompt": 'def outer(x):\n    """\n    >>>outer(2)\n    2"""'}
    (task,) = read_tasks(write(tmp_path / "h.jsonl", row))
    assert task.visible_tests == ()


def test_own_records(tmp_path):
    (task,) = read_tasks(write(tmp_path / "t.jsonl", OWN))
    assert task == Task(
        id="mine/1",
        kind="programs",
        prompt=[{"role": "user", "content": "f(1)=2"}],
        tests=((1, 2), (0, [1, 2])),
        visible_tests=((1, 2),),
        metadata={"parameters": ["x"]},
    )
    written = write(tmp_path / "again.jsonl", dataclasses.asdict(task))
    assert read_tasks(written) == [task]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "A.JSONL.GZ"])
def test_containers(tmp_path, name):
    lines = [json.dumps(row, ensure_ascii=False) for row in (GSM8K, GSM8K)]
    # A blank line, a byte-order mark, and a separator that splitlines() would cut at.
    text = "\ufeff" + lines[0].replace("Two", "Two\u2028") + "\n\n" + lines[1] + "\r\n"
    if name == "a.json":
        text = f"[{lines[0]},\n{lines[1]}]"
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if "z" in name.lower() else data)
    tasks = read_tasks(tmp_path / name)
    assert [task.answer for task in tasks] == ["1,234", "1,234"]
    assert tasks == read_tasks(str(tmp_path / name), format="gsm8k")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {**GSM8K, "answer": "12"},
            "column answer: wanted a text that ends with '####",
        ),
        ({**GSM8K, "answer": "#### none"}, "column answer: wanted a text that ends"),
        ({**GSM8K, "question": 3}, "column question: wanted a text, got 3"),
        ({**GSM8K, "question": " "}, "column question: wanted a text that is not empt"),
        (
            {"question": "x"},
            r"format 'gsm8k' wants the columns .*missing: \['answer'\]",
        ),
        ({**MBPP, "test_list": []}, "column test_list: wanted a non-empty list"),
        (
            {**MBPP, "test_list": "assert 1"},
            "column test_list: wanted a non-empty list",
        ),
        ({**MBPP, "test_list": ["assert ("]}, "column test_list: not Python: 'assert"),
        ({**MBPP, "test_list": ["assert len([])"]}, "calls no function to write"),
        ({**MBPP, "test_setup_code": None}, "column test_setup_code: wanted a text"),
        ({**HUMANEVAL, "test": "pass"}, r"wanted source text that defines check\(cand"),
        ({**HUMANEVAL, "entry_point": "f"}, r"column prompt: wanted .*'def f\('"),
        ({**OWN, "answr": ""}, r"unknown columns \['answr'\]; wanted some of \['id'"),
        ({**OWN, "id": ""}, "column id: wanted a text that is not empty"),
        ({**OWN, "kind": None}, "column kind: wanted a text, got None"),
        (
            {**OWN, "prompt": [{"role": "user"}]},
            "column prompt: wanted a text or a list",
        ),
        ({**OWN, "prompt": []}, "column prompt: wanted a text or a list"),
        ({**OWN, "answer": 3}, "column answer: wanted a text, got 3"),
        ({**OWN, "tests": "x"}, "column tests: wanted a list"),
        ({**OWN, "metadata": []}, "column metadata: wanted an object"),
        (["question"], r"wanted a JSON object, got \['question'\]"),
    ],
)
def test_malformed_rows_name_their_line(tmp_path, row, message):
    format = {"task_id": "mbpp", "id": "task", "entry_point": "humaneval"}
    names = [name for column, name in format.items() if column in row]
    first = {"mbpp": MBPP, "task": OWN, "humaneval": HUMANEVAL}
    name = names[-1] if names else "gsm8k"
    good = first.get(name, GSM8K)
    good = {**good, "task_id" if "task_id" in good else "id": "other"}
    if name == "gsm8k":
        good = GSM8K
    path = write(tmp_path / "rows.jsonl", good, row)
    with pytest.raises(ValueError, match=f"rows.jsonl, line 2: .*{message}") as caught:
        read_tasks(path, format=name)
    assert "\n" not in str(caught.value)


def test_row_of_a_json_list_is_numbered(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([GSM8K, {}]))
    with pytest.raises(ValueError, match=r"a\.json, row 2: format 'gsm8k' wants"):
        read_tasks(tmp_path / "a.json")


def test_ids_are_unique(tmp_path):
    path = write(tmp_path / "m.jsonl", MBPP, {**MBPP, "task_id": 8}, MBPP)
    with pytest.raises(ValueError, match=r"line 3: the id 'mbpp/7' .* on line 1 alr"):
        read_tasks(path)


def test_unknown_formats(tmp_path):
    path = write(tmp_path / "a.jsonl", {"column": 1})
    with pytest.raises(
        ValueError, match=r"a\.jsonl, line 1: no known .*\['column'\]; wanted task: id"
    ):
        read_tasks(path)
    with pytest.raises(ValueError, match=r"format must be one of \['auto', .*'csv'"):
        read_tasks(path, format="csv")
    with pytest.raises(ValueError, match=r"a\.txt: wanted a file named \.jsonl"):
        read_tasks(tmp_path / "a.txt")


def test_unreadable_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl: there is no such data set"):
        read_tasks(tmp_path / "a.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ValueError, match=r"folder\.jsonl: cannot be read: Is a dir"):
        read_tasks(tmp_path / "folder.jsonl")
    good = gzip.compress(os.urandom(5000))
    packed = gzip.compress(b"abc" * 1000)
    corrupt = packed[:10] + b"\xff\xff" + packed[12:]
    for content in (b"{}", good[:-2000], good[:50] + b"xx" + good[52:], corrupt):
        (tmp_path / "a.jsonl.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.jsonl\.gz: wanted a whole gzip file"):
            read_tasks(tmp_path / "a.jsonl.gz")
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"a\.jsonl: wanted UTF-8 text"):
        read_tasks(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text(json.dumps(GSM8K) + "\n{'question'")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: not JSON: Expecting"):
        read_tasks(tmp_path / "a.jsonl")
    (tmp_path / "a.json").write_text('{"rows": []}')
    with pytest.raises(ValueError, match=r"a\.json: wanted a JSON list of rows"):
        read_tasks(tmp_path / "a.json")


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", "\n \n"), ("a.json", "[]")])
def test_empty_data_sets(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="the data set is empty; wanted at least one"):
        read_tasks(tmp_path / name)


def test_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.parquet"
    with pytest.raises(FileNotFoundError, match=r"a\.parquet: there is no such data"):
        read_tasks(path)
    path.write_bytes(b"PAR1")
    message = r"a\.parquet: reading Parquet needs pyarrow.*install 'rlvr_jax\[parquet\]"
    with pytest.raises(ImportError, match=message):
        read_tasks(path)


class Table:
    """Stands in for pyarrow's ParquetFile: two batches of rows."""

    batches = ([{**GSM8K, "level": None}], [{**GSM8K, "answer": None}])

    def __init__(self, path):
        if path.read_bytes() != b"PAR1":
            raise ArrowException("no magic bytes")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def iter_batches(self):
        for rows in self.batches:
            yield types.SimpleNamespace(to_pylist=lambda rows=rows: rows)


class ArrowException(Exception):
    pass


@pytest.fixture
def pyarrow(monkeypatch):
    parquet = types.SimpleNamespace(ParquetFile=Table)
    package = types.SimpleNamespace(ArrowException=ArrowException, parquet=parquet)
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)


def test_parquet_rows_are_numbered_over_batches(tmp_path, pyarrow, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    message = r"a\.parquet, row 2: format 'gsm8k' wants .*missing: \['answer'\]"
    with pytest.raises(ValueError, match=message):
        read_tasks(path)
    monkeypatch.setattr(Table, "batches", ([GSM8K], [GSM8K]))
    assert [task.id for task in read_tasks(path)] == ["a/1", "a/2"]
    path.write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"a\.parquet: wanted a Parquet file: no mag"):
        read_tasks(path)
