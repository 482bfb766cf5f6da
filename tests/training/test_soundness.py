"""Tasks whose own answer fails are left out of training, reported, and stay out."""

import json
import pathlib

import pytest

from rlvr_jax import config as configs
from rlvr_jax import envs
from rlvr_jax.envs.verdict import unknown
from rlvr_jax.tasks import Task
from rlvr_jax.training import loop, soundness, workbench
from rlvr_jax.training.workbench import open_workbench

GOLDS = ["2", "x + ) (", r"\sqrt{2}", "x + ) ("]
UNREAD = ["t/1", "t/3"]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def golds(tmp_path):
    rows = [
        {"id": f"t/{i}", "kind": "math", "prompt": f"{i}?", "answer": gold}
        for i, gold in enumerate(GOLDS)
    ]
    return write(tmp_path / "golds.jsonl", rows)


class References(envs.Verifier):
    """Accepts the reference "good"; counts what it grades."""

    def __init__(self):
        super().__init__()
        self.graded = []

    def grade(self, task, response):
        self.graded.append(task.id)
        if "lost" in response:
            return unknown("infrastructure")
        solved = "good" in response
        status = "passed" if solved else "failed"
        return envs.Verdict(float(solved), solved, "", status, int(solved), 1)


@pytest.fixture
def references(tmp_path, monkeypatch):
    """(path of tasks with references, verifiers made so far)."""
    made = []

    def make(kind, **_):
        made.append(References())
        return made[-1]

    monkeypatch.setattr(workbench.envs, "make_verifier", make)
    rows = [
        {"id": f"t/{i}", "kind": "code", "prompt": f"{i}?", "answer": answer}
        for i, answer in enumerate(["good", "bad", "", "lost"] * 20)
    ]
    return write(tmp_path / "code.jsonl", rows), made


def test_unreadable_golds_are_dropped_from_training(make_config, golds, capfd):
    bench, _ = open_workbench(make_config(tasks__source=golds))
    with bench:
        assert {task.id for task in bench.stream.batch(0, 2)} == {"t/0", "t/2"}
        assert [task.id for task in bench.held_out] == ["t/0", "t/2"]
        assert bench.tried["tasks.source"]["self_check"] == UNREAD
    line = "tasks.source: gold answers that cannot be read: 2 of 4 (t/1, t/3)\n"
    assert line in capfd.readouterr().err


def test_a_held_out_set_stays_whole_and_is_reported(make_config, golds, data_set):
    config = make_config(
        tasks__source=str(data_set), tasks__eval_source=golds, eval__tasks=3
    )
    bench, _ = open_workbench(config)
    with bench:
        assert [task.id for task in bench.held_out] == ["t/0", "t/1", "t/2"]
        assert bench.tried["tasks.eval_source"]["self_check"] == ["t/1"]
        assert bench.tried["tasks.source"]["self_check"] == []


def test_checks_can_be_left_out(make_config, golds):
    bench, _ = open_workbench(make_config(tasks__source=golds, tasks__self_check=False))
    with bench:
        assert len({task.id for task in bench.stream.batch(0, 4)}) == 4
        assert "self_check" not in bench.tried["tasks.source"]


def test_references_that_fail_are_dropped(make_config, references):
    path, _ = references
    bench, _ = open_workbench(make_config(tasks__source=path, tasks__self_test=True))
    with bench:
        kept = {task.id for task in bench.stream.batch(0, 60)}
    # Without a reference nothing is known, nor when the host failed to run it.
    assert kept == {f"t/{i}" for i in range(80) if i % 4 != 1}
    found = bench.tried["tasks.source"]["self_test"]
    assert found == {f"t/{i}": "failed" for i in range(1, 80, 4)}


def test_a_resumed_run_has_the_tasks_of_its_first_start(
    make_config, references, tmp_path
):
    path, made = references
    config = make_config(
        steps=1, tasks__source=path, tasks__self_test=True, eval__every=0
    )
    loop.train(config, tmp_path / "run", resume=None)
    report = json.loads((tmp_path / "run" / "host.json").read_text())["tasks_tried"]
    assert len(report["tasks.source"]["self_test"]) == 20
    loop.train(config, tmp_path / "run", resume=None)
    again = json.loads((tmp_path / "run" / "host.json").read_text())["tasks_tried"]
    assert again == report
    assert len(made[0].graded) >= 80 and not made[1].graded
    # Other tasks or settings are tried anew, and so are those of a damaged file.
    config = make_config(tasks__source=path, tasks__self_test=True)
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    write(tmp_path / "code.jsonl", rows[:-1])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "host.json").write_text('{"tasks_')
    for folder in ("run", "broken"):
        bench, _ = open_workbench(config, tmp_path / folder)
        with bench:
            assert len(made[-1].graded) == 79


def test_a_verifier_is_closed_if_no_task_is_left(make_config, tmp_path, monkeypatch):
    closed = []

    class Strict(References):
        def close(self):
            closed.append(True)
            super().close()

    monkeypatch.setattr(workbench.envs, "make_verifier", lambda kind, **_: Strict())
    rows = [{"id": "t", "kind": "code", "prompt": "1", "answer": "bad"}]
    config = make_config(
        tasks__source=write(tmp_path / "rows.jsonl", rows), tasks__self_test=True
    )
    with pytest.raises(ValueError, match=r"answers of all 1 tasks fail on the verifi"):
        open_workbench(config)
    assert closed


def test_generated_training_tasks_are_not_tried():
    held_out = [Task("a", "code", "", "good"), Task("b", "code", "", "good")]
    config = configs.parse({"tasks": {"self_test": True}, "eval": {"tasks": 1}})
    with References() as verifier:
        found = soundness.sound_tasks(verifier, [], held_out, config)
    assert found[:2] == ([], held_out)
    assert verifier.graded == ["a"]
    assert list(found[2]) == ["tasks.eval_source"]


def test_what_was_tried_is_in_no_steps_metrics():
    class Parts(References):
        means_taken = 0

        def means(self):
            self.means_taken += 1
            return {}

    config = configs.parse({"tasks": {"self_test": True}})
    with Parts() as verifier:
        rows = [Task("a", "code", "", "good")]
        soundness.sound_tasks(verifier, rows, rows, config)
        assert verifier.means_taken == 1
