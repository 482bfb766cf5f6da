"""A run whose responses are graded by the user's own functions."""

import json
import threading

import pytest

from rlvr_jax import envs
from rlvr_jax.training import loop
from rlvr_jax.training.workbench import open_workbench

REWARDS = """
def right(completions, answer, **columns):
    return [float(text == gold) for text, gold in zip(completions, answer)]

def length(completions):
    return [len(text) for text in completions]

def silent(completions):
    return [None for text in completions]

def broken(completions):
    raise KeyError("no such thing")
"""


@pytest.fixture
def graded_by(make_config, tmp_path):
    """A function from functions and weights to a run that they grade."""
    (tmp_path / "rewards.py").write_text(REWARDS)

    def make(*names, weights=(), **changes):
        return make_config(
            steps=2,
            tasks__verifier="function",
            tasks__verifier_functions=tuple(
                f"{tmp_path}/rewards.py:{name}" for name in names
            ),
            tasks__verifier_weights=weights,
            **changes,
        )

    return make


def trained(config, workdir):
    loop.train(config, workdir, resume=None)
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_each_function_is_a_metric_of_each_step(graded_by, tmp_path):
    config = graded_by(
        "right", "length", "silent", weights=(0.0, 0.5, 1.0), eval__every=1
    )
    for row in trained(config, tmp_path / "run"):
        # Of this step's responses alone, those of the evaluation left out.
        assert 0.5 * row["reward/length"] == pytest.approx(row["reward/mean"])
        assert row["reward/right"] == 0.0
        assert "reward/silent" not in row
        statuses = {name: row[f"verify/{name}"] for name in envs.STATUSES}
        assert sum(statuses.values()) == statuses["passed"] + statuses["failed"] > 0
        assert row["time/verify"] + row["time/verify_hidden"] > 0


def test_what_nobody_graded_is_counted_and_left_out(graded_by, tmp_path):
    for row in trained(graded_by("silent"), tmp_path / "run"):
        assert row["verify/abstained"] == row["groups/lost"] == 4
        assert row["verify/infrastructure"] == row["tokens/trained"] == 0


def test_an_error_of_a_function_stops_the_run_with_its_own_words(graded_by, tmp_path):
    before = set(threading.enumerate())
    with pytest.raises(envs.FunctionError, match=r":broken raised KeyError: 'no such"):
        loop.train(graded_by("broken"), tmp_path / "run", resume=None)
    begun = set(threading.enumerate()) - before
    assert not [thread for thread in begun if thread.name.startswith("rlvr-")]


def test_the_configuration_chooses_functions(make_config, tmp_path):
    (tmp_path / "rewards.py").write_text(REWARDS)
    rows = [
        {"id": kind, "kind": kind, "prompt": "1", "answer": "2"}
        for kind in ("math", "code")
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = tuple(f"{tmp_path}/rewards.py:{name}" for name in ("right", "length"))
    config = make_config(
        tasks__source=str(path),
        tasks__verifier="function",
        tasks__verifier_functions=names,
        tasks__verifier_weights=(1.0, 0.25),
        tasks__solved_threshold=0.75,
    )
    bench, _ = open_workbench(config)
    with bench:
        pairs = [(task, text) for task in bench.held_out for text in ("2", "333")]
        verdicts = bench.verifier.verify(pairs)
        assert bench.verifier.workers == config.tasks.verifier_workers
    assert [v.reward for v in verdicts] == [1.25, 0.75, 1.25, 0.75]
    assert all(v.solved for v in verdicts)
