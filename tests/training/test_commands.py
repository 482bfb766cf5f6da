"""The commands themselves, as processes: their files, lines and exit codes."""

import json
import re
import subprocess
import time

import pytest


@pytest.fixture
def command(started):
    """A function that runs a command on the small run to its end."""

    def run(name, *arguments):
        process = started(name, *arguments)
        output, errors = process.communicate()
        return subprocess.CompletedProcess([], process.returncode, output, errors)

    return run


def test_evaluation_writes_into_a_new_folder_and_compares(command, tmp_path):
    output = tmp_path / "new" / "eval.json"
    done = command("evaluate", "--checkpoint=base", f"--output={output}")
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert [len(row["correct"]) for row in result["tasks"]] == [2, 2, 2]
    assert done.stdout.splitlines()[0].split() == ["metric", "value"]
    assert "eval/iter_2" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", r"--compare=\S+: not JSON"), ("[]", r"--compare=\S+: wanted a file that")],
)
def test_a_comparison_with_no_result_is_one_line(command, tmp_path, text, message):
    (tmp_path / "old.json").write_text(text)
    done = command("evaluate", f"--compare={tmp_path / 'old.json'}")
    assert done.returncode == 2
    assert re.fullmatch(rf"error: {message}.*\n", done.stderr), done.stderr


def test_a_checkpoint_that_is_not_there_is_one_line(command, tmp_path):
    done = command("evaluate", f"--workdir={tmp_path}", "--checkpoint=3")
    assert done.returncode == 2
    assert re.fullmatch(r"error: --checkpoint must be base, .*got '3'\n", done.stderr)


def test_told_to_stop_the_training_saves_and_asks_to_be_run_again(started, tmp_path):
    workdir = tmp_path / "run"
    process = started("train", f"--workdir={workdir}", "--config.steps=5000")
    while not (workdir / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    steps = len((workdir / "metrics.jsonl").read_text().splitlines())
    assert f"told to stop: saved after {steps} of 5000 steps" in errors
    assert (workdir / "checkpoints" / str(steps)).is_dir()
