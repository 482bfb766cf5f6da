"""Bounds on the difficulty and de-duplication, from the configuration to the run."""

import json
import sys
import types

import pytest

from rlvr_jax import config as configs
from rlvr_jax.tasks import arithmetic_tasks
from rlvr_jax.training.workbench import open_workbench

# (prompt, share of attempts that solved it)
SUMS = [("1+1=", "7/8"), ("2+1=", "2/8"), ("2+1= ", "3/8"), ("3+1=", "4/8")]


@pytest.fixture
def source(tmp_path):
    rows = [
        {"id": f"s/{i}", "kind": "math", "prompt": prompt, "answer": "2"}
        | {"metadata": {"difficulty": share}}
        for i, (prompt, share) in enumerate(SUMS)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_training_tasks_are_selected_and_counted(make_config, source):
    config = make_config(
        tasks__source=source, tasks__difficulty=(0.25, 0.5), tasks__deduplicate=True
    )
    bench, _ = open_workbench(config)
    with bench:
        assert (bench.num_outside, bench.num_duplicates, bench.num_skipped) == (1, 1, 0)
        assert {task.id for task in bench.stream.batch(0, 2)} == {"s/1", "s/3"}
        assert [task.id for task in bench.held_out] == ["s/1", "s/3"]


def test_all_tasks_stay_by_default_and_in_a_held_out_set(make_config, source):
    bench, _ = open_workbench(make_config(tasks__source=source))
    with bench:
        assert (bench.num_outside, bench.num_duplicates) == (0, 0)
        assert len({task.id for task in bench.stream.batch(0, 4)}) == 4
    config = make_config(
        tasks__source=source,
        tasks__eval_source=source,
        tasks__difficulty=(0.25, 0.5),
        tasks__deduplicate=True,
        eval__tasks=4,
    )
    bench, _ = open_workbench(config)
    with bench:
        assert len(bench.held_out) == 4


def test_bounds_that_leave_nothing(make_config, source):
    config = make_config(tasks__source=source, tasks__difficulty=(0.9, 1.0))
    message = r"tasks\.source has no task with a difficulty in \(0\.9, 1\.0\): widen"
    with pytest.raises(ValueError, match=message):
        open_workbench(config)


@pytest.mark.parametrize("bounds", [(0.5,), (0.5, 0.25), (-0.1, 1.0), (0.0, 1.5)])
def test_bounds_are_a_range(bounds):
    message = r"tasks\.difficulty must be \(\) or \(low, high\) with 0 <= low"
    with pytest.raises(ValueError, match=message):
        configs.parse({"tasks": {"source": "a.jsonl", "difficulty": bounds}})


@pytest.mark.parametrize("wanted", [{"difficulty": (0.0, 0.5)}, {"deduplicate": True}])
def test_generated_tasks_are_not_selected(wanted):
    message = r"select from a data set, but tasks\.source is 'programs': leave them"
    with pytest.raises(ValueError, match=message):
        configs.parse({"tasks": wanted})


def test_generated_data_sets_of_training_and_evaluation(make_config, monkeypatch):
    def create_dataset(name, *, size, seed):
        return [{"question": "1?", "answer": str(seed)}] * size

    package = types.SimpleNamespace(create_dataset=create_dataset)
    monkeypatch.setitem(sys.modules, "reasoning_gym", package)
    config = make_config(
        tasks__source="reasoning_gym:gcd",
        tasks__eval_source="reasoning_gym:gcd,lcm",
        tasks__generated=5,
        tasks__max_prompt_tokens=100,
        update__row_length=256,
        eval__tasks=2,
    )
    bench, _ = open_workbench(config)
    with bench:
        assert {task.id for task in bench.stream.batch(0, 5)} == {
            f"reasoning_gym:gcd/{config.seed}/{i}" for i in range(5)
        }
        assert [task.id for task in bench.held_out] == [
            f"reasoning_gym:gcd/{config.eval.seed}/0",
            f"reasoning_gym:lcm/{config.eval.seed}/1",
        ]


def test_a_split_of_arithmetic_for_training_and_one_for_evaluation(make_config):
    config = make_config(
        tasks__source="arithmetic:one_digit_addition:train",
        tasks__eval_source="arithmetic:one_digit_addition:heldout",
        tasks__max_prompt_tokens=100,
        update__row_length=256,
        eval__tasks=3,
    )
    bench, _ = open_workbench(config)
    with bench:
        training = arithmetic_tasks("one_digit_addition:train")
        assert {task.id for task in bench.stream.batch(0, len(training))} == {
            task.id for task in training
        }
        assert bench.held_out == arithmetic_tasks("one_digit_addition:heldout")[:3]
        (verdict,) = bench.verifier.verify([(training[0], training[0].answer)])
        assert verdict.solved
