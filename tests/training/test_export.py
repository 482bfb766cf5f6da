"""A run's policy as a Hugging Face directory: the same weights, ids and stops."""

import dataclasses
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from rlvr_jax import models, tasks
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.config import to_json
from rlvr_jax.export import export
from rlvr_jax.training import loop
from rlvr_jax.training.workbench import open_workbench


@pytest.fixture(scope="module")
def workdir_path(tmp_path_factory):
    return tmp_path_factory.mktemp("exported") / "run"


@pytest.fixture
def run_config(make_config):
    return make_config(steps=2, checkpoint__every=1, eval__every=0)


@pytest.fixture
def workdir(run_config, letters, workdir_path):
    """Folder of a run of two steps, a checkpoint after each."""
    if not workdir_path.exists():
        loop.train(run_config, workdir_path, resume=None)
    return workdir_path


def saved_params(config, workdir, step):
    """Parameters that a checkpoint holds, read with the whole state."""
    bench, params = open_workbench(config)
    with bench, Checkpoints(workdir / "checkpoints") as checkpoints:
        like = loop.make_train_step(bench).init(params)
        return checkpoints.restore(step, like)[0].params


def assert_equal(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def run_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rlvr_jax.export", *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
    )


def test_the_latest_checkpoint_is_exported_bit_for_bit(run_config, workdir, tmp_path):
    output = tmp_path / "new" / "hf"
    done = run_command(f"--workdir={workdir}", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{output}: step 2 of {workdir}, float32\n"
    _, params = models.load(output)
    assert_equal(params, saved_params(run_config, workdir, 2))
    _, start = models.load(run_config.model.path)
    assert not np.array_equal(params["embed"], start["embed"])
    assert sorted(path.name for path in output.parent.iterdir()) == ["hf"]


def test_training_goes_on_from_an_export(make_config, workdir, letters, tmp_path):
    output, again = tmp_path / "hf", tmp_path / "again"
    assert export(workdir, output, checkpoint="latest", dtype="float32") == 2
    # Steps that are too small for float32: it ends with the weights it began with.
    small = {"optimizer__learning_rate": 1e-30, "optimizer__weight_decay": 0.0}
    config = make_config(steps=1, model__path=str(output), **small)
    loop.train(config, tmp_path / "run", resume=None)
    export(tmp_path / "run", again, checkpoint="latest", dtype="float32")
    assert_equal(models.load(again)[1], models.load(output)[1])
    assert tasks.load_tokenizer(again).stop_ids == tasks.load_tokenizer(output).stop_ids
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        assert (again / name).read_text() == (output / name).read_text()


def test_a_step_can_be_named_and_the_type_chosen(run_config, workdir, tmp_path):
    assert export(workdir, tmp_path / "hf", checkpoint="1", dtype="bfloat16") == 1
    expected = jax.tree.map(
        lambda x: x.astype("bfloat16"), saved_params(run_config, workdir, 1)
    )
    assert_equal(models.load(tmp_path / "hf", dtype="bfloat16")[1], expected)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"


def test_the_tokenizer_acts_as_in_the_run(run_config, workdir, tmp_path):
    export(workdir, tmp_path / "hf", checkpoint="latest", dtype="float32")
    mine = tasks.load_tokenizer(tmp_path / "hf")
    run = tasks.load_tokenizer(run_config.model.path)
    assert mine.prompt_ids("f(0)=1") == run.prompt_ids("f(0)=1")
    assert mine.appendix_ids("no", closed=True) == run.appendix_ids("no", closed=True)
    assert (mine.stop_ids, mine.pad_id) == (run.stop_ids, run.pad_id)
    generation = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == list(run.stop_ids)


def test_an_empty_output_is_filled_and_another_one_left_alone(workdir, tmp_path):
    output = tmp_path / "hf"
    output.mkdir()
    export(workdir, output, checkpoint="latest", dtype="float32")
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    with pytest.raises(ValueError, match=r"--output=\S+ exists and is not an empty"):
        export(workdir, output, checkpoint="1", dtype="float32")
    assert before == {path.name: path.read_bytes() for path in output.iterdir()}
    with pytest.raises(ValueError, match="exists and is not an empty folder: name"):
        export(workdir, output / "config.json", checkpoint="1", dtype="float32")


def test_nothing_stays_of_an_export_that_fails(workdir, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(models, "save", fails)
    with pytest.raises(OSError, match="no space left"):
        export(workdir, tmp_path / "hf", checkpoint="latest", dtype="float32")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("checkpoint", ["3", "last", "-1"])
def test_a_checkpoint_that_is_not_there(workdir, tmp_path, checkpoint):
    message = r"--checkpoint must be latest or a step of \S+ \(\[1, 2\]\); got"
    with pytest.raises(ValueError, match=message):
        export(workdir, tmp_path / "hf", checkpoint=checkpoint, dtype="float32")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_run(model_directory, tmp_path):
    output = tmp_path / "hf"
    with pytest.raises(ValueError, match=r"--workdir=\S+ has no config\.json: name"):
        export(tmp_path, output, checkpoint="latest", dtype="float32")
    # A Hugging Face directory has a config.json of another kind.
    with pytest.raises(ValueError, match=r"not a run's configuration \(unknown"):
        export(model_directory, output, checkpoint="latest", dtype="float32")


def test_a_run_without_checkpoints(run_config, tmp_path):
    (tmp_path / "config.json").write_text(to_json(run_config))
    with pytest.raises(ValueError, match=r"latest or a step of \S+ \(it has none\)"):
        export(tmp_path, tmp_path / "hf", checkpoint="latest", dtype="float32")


def test_a_start_policy_that_is_gone(make_config, tmp_path):
    config = make_config(model__path="models/gone")
    (tmp_path / "config.json").write_text(to_json(config))
    with pytest.raises(ValueError, match=r"model\.path models/gone of the run is not"):
        export(tmp_path, tmp_path / "hf", checkpoint="latest", dtype="float32")


def test_bad_flags_are_one_line(tmp_path):
    done = run_command(f"--workdir={tmp_path}", f"--output={tmp_path / 'hf'}")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: --workdir={tmp_path} has no config.json: name the folder of a run\n"
    )
    done = run_command(f"--workdir={tmp_path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--output" in done.stderr


def test_the_thinking_switch_is_the_run_s(run_config, workdir, tmp_path):
    start = tmp_path / "start"
    models.save(start, *models.load(run_config.model.path))
    tasks.load_tokenizer(run_config.model.path).save(start)
    file = start / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings["chat_template"] += (
        "{% if enable_thinking is defined and not enable_thinking %}.{% endif %}"
    )
    file.write_text(json.dumps(settings))
    section = dataclasses.replace(run_config.model, path=str(start), thinking="off")
    config = dataclasses.replace(run_config, model=section)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(to_json(config))
    (tmp_path / "run" / "checkpoints").symlink_to(workdir / "checkpoints")
    export(tmp_path / "run", tmp_path / "hf", checkpoint="latest", dtype="float32")
    bench, _ = open_workbench(config)
    with bench:
        for tokenizer in (bench.tokenizer, tasks.load_tokenizer(tmp_path / "hf")):
            asked = tokenizer.decode(tokenizer.prompt_ids("0+1="), skip_special=False)
            assert asked == "<|user|>0+1=<|end|><|assistant|>."
