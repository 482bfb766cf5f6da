"""A user's own reward functions."""

import os
import textwrap
import time

import pytest

from rlvr_jax import envs
from rlvr_jax.tasks.records import Task

TASK = Task(
    "t1", "math", "What is 1 + 1?", answer="2", metadata={"level": 3, "source": "me"}
)

REWARDS = """
import asyncio, math, os, time
import beside

def right(completions, answer, **columns):
    return [float(text == gold) for text, gold in zip(completions, answer)]

async def length(completions, **columns):
    await asyncio.sleep(0.01)
    return [len(text) / 10 for text in completions]

def columns(prompts, completions, level, source, id, kind, tests, **more):
    assert (prompts, level, source) == (["What is 1 + 1?"], [3], ["me"])
    assert (id, kind, tests) == (["t1"], ["math"], [()])
    assert sorted(more) == ["answer", "entry_point", "setup", "visible_tests"]
    return [0.5]

def chat(prompts, completions):
    assert prompts == [[{"role": "user", "content": "Hi"}]]
    return [float(completions == [[{"role": "assistant", "content": "yes"}]])]

def compute_score(data_source, solution_str, ground_truth, extra_info):
    assert (data_source, ground_truth) == ("math", "2"), (data_source, ground_truth)
    assert extra_info == {"level": 3, "source": "me"}
    return {"score": float(solution_str == ground_truth), "more": "for a log"}

async def compute_later(solution_str, ground_truth):
    return solution_str == ground_truth

def row(data_source, solution_str, ground_truth, extra_info):
    return float((data_source, ground_truth, extra_info) == ("d", "g", {"k": 1}))

def abstain(completions, **columns):
    return [None if text == "?" else 1.0 for text in completions]

def loops(completions, **columns):
    asyncio.run(asyncio.sleep(0))
    return [1.0]

def talks(completions, **columns):
    print("a" * 100_000, flush=True)
    os.write(1, b"\\x02\\0\\0\\0{}")
    return [beside.VALUE]

def value(completions, **columns):
    return eval(completions[0])

def slow(completions, **columns):
    if completions[0] == "hang":
        time.sleep(60)
    if completions[0] == "die":
        os._exit(3)
    return [float(os.getpid())]

number = 3
"""


@pytest.fixture(scope="module")
def rewards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewards")
    (folder / "beside.py").write_text("VALUE = 0.25\n")
    path = folder / "rewards.py"
    path.write_text(textwrap.dedent(REWARDS))
    (folder / "broken.py").write_text("import no_such_module_anywhere\n")
    return path


@pytest.fixture
def make(rewards):
    def made(*names, **settings):
        settings = {"threshold": 1.0, "workers": 1, **settings}
        functions = [f"{rewards}:{name}" for name in names]
        return envs.make_verifier("function", functions=functions, **settings)

    return made


@pytest.mark.parametrize(
    "name", ["right", "compute_score", "compute_later", "loops", "abstain"]
)
def test_both_signatures_sync_and_async(make, name):
    with make(name) as verifier:
        (verdict,) = verifier.verify([(TASK, "2")])
        assert (verdict.reward, verdict.solved) == (1.0, True)
        assert (verdict.status, verdict.visible_passed) == ("passed", True)
        if name not in ("loops", "abstain"):
            (verdict,) = verifier.verify([(TASK, "3")])
            assert (verdict.reward, verdict.status) == (0.0, "failed")


def test_fields_and_metadata_are_columns(make):
    with make("columns") as verifier:
        assert verifier.verify([(TASK, "")])[0].reward == 0.5


def test_messages_stay_messages(make):
    task = Task("c", "math", [{"role": "user", "content": "Hi"}])
    with make("chat") as verifier:
        assert verifier.verify([(task, "yes")])[0].reward == 1.0


def test_a_row_of_verl_keeps_its_own_columns(make):
    metadata = {"data_source": "d", "ground_truth": "g", "extra_info": {"k": 1}}
    task = Task("v", "math", "", answer="other", metadata=metadata)
    with make("row") as verifier:
        assert verifier.verify([(task, "")])[0].reward == 1.0


def test_weights_add_up_and_zero_is_a_metric(make):
    with make("right", "length", weights=(2.0, 0.0), threshold=1.5) as verifier:
        verdicts = verifier.verify([(TASK, "2"), (TASK, "333")])
        assert [v.reward for v in verdicts] == [2.0, 0.0]
        assert verifier.means() == pytest.approx({"right": 0.5, "length": 0.2})
        assert verifier.means() == {}
        # Graded before or twice in a batch, a response counts as often as it comes.
        verifier.verify([(TASK, "2"), (TASK, "2"), (TASK, "55555")])
        verifier.verify([(TASK, "2")])
        assert verifier.means() == pytest.approx({"right": 0.75, "length": 0.2})
    with make("right", "length", weights=(2.0, 1.0), threshold=2.1) as verifier:
        verdicts = verifier.verify([(TASK, "2"), (TASK, "333")])
        assert [v.reward for v in verdicts] == pytest.approx([2.1, 0.3])
        assert [v.solved for v in verdicts] == [True, False]


def test_none_abstains_and_others_still_count(make):
    with make("abstain") as verifier:
        (verdict,) = verifier.verify([(TASK, "?")])
        assert (verdict.reward, verdict.status) == (None, "abstained")
    with make("abstain", "length", weights=(1.0, 0.0)) as verifier:
        assert verifier.verify([(TASK, "?")])[0].status == "abstained"
        assert verifier.means() == pytest.approx({"length": 0.1})
    with make("abstain", "length") as verifier:
        assert verifier.verify([(TASK, "?")])[0].reward == pytest.approx(0.1)


def test_names_of_means_are_short_where_they_are_unique(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(
            "def same(completions): return [1.0]\nmean = other = same\n"
        )
    functions = [f"{tmp_path}/{n}" for n in ("a.py:same", "b.py:same", "a.py:mean")]
    functions.append(f"{tmp_path}/b.py:other")
    with envs.make_verifier(
        "function", functions=functions, threshold=1.0, workers=1
    ) as verifier:
        verifier.verify([(TASK, "2")])
        assert list(verifier.means()) == [*functions[:3], "other"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("[float('nan')]", "must return finite numbers, or None to abstain; got nan"),
        ("[float('inf')]", "must return finite numbers.*got inf"),
        ("['good']", "must return finite numbers.*got 'good'"),
        ("[1.0, 1.0]", r"must return a list of 1 values.*got \[1\.0, 1\.0\]"),
        ("1.0", "must return a list of 1 values.*got 1.0"),
        ("[{'points': 1}]", "must return finite numbers.*got 'no score'"),
        ("[1 / 0]", r"raised ZeroDivisionError: .*; the columns are \['answer'"),
    ],
)
def test_a_wrong_function_is_one_error(make, returned, message):
    with (
        make("value") as verifier,
        pytest.raises(envs.FunctionError, match=f"task 't1': .*:value {message}"),
    ):
        verifier.verify([(TASK, returned)])


def test_a_missing_column_names_those_there_are(make):
    task = Task("bare", "math", "")
    with (
        make("columns") as verifier,
        pytest.raises(envs.FunctionError, match="'level' and 'source'; the columns"),
    ):
        verifier.verify([(task, "")])


def test_the_process_is_replaced_after_its_time_and_after_its_death(make):
    with make("slow", seconds=0.5) as verifier:
        (first,) = verifier.verify([(TASK, "a")])
        start = time.monotonic()
        (hung,) = verifier.verify([(TASK, "hang")])
        assert time.monotonic() - start < 10
        assert (hung.reward, hung.status) == (None, "infrastructure")
        with pytest.raises(ProcessLookupError):
            os.kill(int(first.reward), 0)
        (second,) = verifier.verify([(TASK, "b")])
        assert second.reward not in (first.reward, os.getpid())
        (dead,) = verifier.verify([(TASK, "die")])
        assert (dead.reward, dead.status) == (None, "infrastructure")
        assert verifier.verify([(TASK, "c")])[0].reward != second.reward
    assert verifier.pool.replaced() == 3


def test_what_a_function_prints_is_no_reply(make):
    with make("talks") as verifier:
        assert verifier.verify([(TASK, "")])[0].reward == 0.25


def test_a_module_by_name(monkeypatch, rewards):
    monkeypatch.syspath_prepend(str(rewards.parent))
    settings = {"functions": ["rewards:right"], "threshold": 1.0}
    with envs.make_verifier("function", **settings) as verifier:
        assert verifier.verify([(TASK, "2")])[0].solved
        description = verifier.describe()
    assert description["functions"] == {"rewards:right": 1.0}
    assert description["threshold"] == 1.0


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ((), {}, "functions must name at least one function"),
        (("right", "right"), {}, "functions must be different"),
        (("right",), {"weights": (1.0, 2.0)}, "weights must be one for each of 1"),
        (("right",), {"weights": (0.0,)}, "weights must be finite and not all 0"),
        (("right",), {"weights": (float("nan"),)}, "weights must be finite"),
        (("right",), {"threshold": float("inf")}, "threshold must be a finite number"),
        (("right",), {"seconds": 0}, "seconds must be above 0, got 0"),
        (("absent",), {}, ":absent cannot be loaded: AttributeError"),
        (("number",), {}, ":number is no function but int"),
    ],
)
def test_impossible_settings(make, names, settings, message):
    with pytest.raises(ValueError, match=message):
        make(*names, **settings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rewards", "must be of the form module:function or .*got 'rewards'"),
        ("no_such_module:f", "cannot be loaded: ModuleNotFoundError"),
        ("/no/such/file.py:f", "there is no file /no/such/file.py"),
    ],
)
def test_functions_that_are_not_there(name, message):
    with pytest.raises(ValueError, match=message):
        envs.make_verifier("function", functions=[name], threshold=1.0)


def test_a_file_that_does_not_import_says_why(rewards):
    name = f"{rewards.parent / 'broken.py'}:f"
    with pytest.raises(ValueError, match=r"No module .*line 1 of broken\.py"):
        envs.make_verifier("function", functions=[name], threshold=1.0)
