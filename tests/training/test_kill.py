"""kill -9 at random moments: pytest -m slow tests/training/test_kill.py (minutes)."""

import json
import random
import time

import pytest

STEPS = 60
KILLS = 20


def rows(workdir):
    file = workdir / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    # A killed process may leave half a line.
    return [json.loads(line) for line in lines if line.endswith("\n")]


def without_times(metrics):
    process = ("time/", "compile/")
    return [
        {k: v for k, v in row.items() if not k.startswith(process)} for row in metrics
    ]


@pytest.mark.slow
def test_killed_twenty_times_it_is_the_same_run(started, tmp_path):
    arguments = (f"--config.steps={STEPS}", "--config.checkpoint.every=1")
    straight = tmp_path / "straight"
    process = started("train", f"--workdir={straight}", *arguments)
    process.communicate()
    assert process.returncode == 0
    moments = random.Random(0)
    workdir, killed = tmp_path / "killed", 0
    while killed < KILLS:
        process = started("train", f"--workdir={workdir}", *arguments)
        goal = len(rows(workdir)) + moments.randint(1, 3)
        while len(rows(workdir)) < goal and process.poll() is None:
            time.sleep(0.01)
        # Somewhere in a step or in a save.
        time.sleep(moments.random() * 0.2)
        if process.poll() is None:
            process.kill()
            killed += 1
        _, errors = process.communicate()
        assert process.returncode == -9, errors
        assert len(rows(workdir)) < STEPS
    process = started("train", f"--workdir={workdir}", *arguments)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert without_times(rows(workdir)) == without_times(rows(straight))
    assert sorted(p.name for p in (workdir / "checkpoints").iterdir()) == sorted(
        p.name for p in (straight / "checkpoints").iterdir()
    )
