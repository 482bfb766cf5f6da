"""Bad input is one line that says what to do, before anything is computed."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rlvr_jax.training.workbench import open_workbench


@pytest.fixture
def copied_model(model_directory, tmp_path):
    return shutil.copytree(model_directory, tmp_path / "model")


def refuses(config, message, error=ValueError):
    """Opening what a run needs fails with one error that matches."""
    with pytest.raises(error, match=message):
        open_workbench(config)


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def sums(count, **changes):
    row = {"kind": "math", "answer": "2"}
    return [row | {"id": f"s/{i}", "prompt": f"{i}+1="} | changes for i in range(count)]


def test_a_model_that_is_not_there(make_config, tmp_path):
    config = make_config(model__path=str(tmp_path / "none"))
    refuses(config, r"wanted a Hugging Face folder, \S+none is none")


def test_a_model_without_weights(make_config, copied_model):
    (copied_model / "model.safetensors").unlink()
    refuses(make_config(model__path=str(copied_model)), r"model\.safetensors")


def test_truncated_weights(make_config, copied_model):
    file = copied_model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refuses(make_config(model__path=str(copied_model)), r"truncated or corrupt")


def test_a_tensor_of_a_wrong_shape(make_config, copied_model):
    file = copied_model / "model.safetensors"
    tensors = load_file(file)
    tensors["model.norm.weight"] = np.ones(15, np.float32)
    save_file(tensors, file)
    message = r"model\.norm\.weight: wanted shape \(16,\) .*got \(15,\)"
    refuses(make_config(model__path=str(copied_model)), message)


def test_a_tokenizer_of_a_larger_model(make_config, copied_model):
    file = copied_model / "model.safetensors"
    tensors = load_file(file)
    name = "model.embed_tokens.weight"
    tensors[name] = np.ascontiguousarray(tensors[name][:50])
    save_file(tensors, file)
    settings = json.loads((copied_model / "config.json").read_text())
    (copied_model / "config.json").write_text(json.dumps(settings | {"vocab_size": 50}))
    message = r"tokenizer has 100 ids but the model has 50 embeddings"
    refuses(make_config(model__path=str(copied_model)), message)


def test_a_malformed_row_is_named_by_its_line(make_config, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", *sums(3))
    with open(path, "a") as file:
        file.write('\n{"id": "x", "kind": "math"\n')
    refuses(make_config(tasks__source=path), r"rows\.jsonl, line 5: not JSON")


def test_a_data_set_that_is_not_there(make_config, tmp_path):
    config = make_config(tasks__source=str(tmp_path / "none.jsonl"))
    refuses(config, r"none\.jsonl: there is no such data set", FileNotFoundError)


def test_an_empty_data_set(make_config, tmp_path):
    (tmp_path / "rows.jsonl").write_text("\n")
    config = make_config(tasks__source=str(tmp_path / "rows.jsonl"))
    refuses(config, r"rows\.jsonl: the data set is empty")


def test_two_kinds_of_tasks(make_config, tmp_path):
    rows = [*sums(2), *sums(1, id="p", kind="programs", tests=[[1, 2]])]
    path = write_rows(tmp_path / "rows.jsonl", *rows)
    refuses(make_config(tasks__source=path), r"one kind of task; got \['math', 'progra")


def test_long_prompts_are_an_error(make_config, tmp_path):
    rows = [*sums(2), *sums(1, id="long", prompt="1" * 20)]
    path = write_rows(tmp_path / "rows.jsonl", *rows)
    # A chat turn of this tokenizer has three tokens of its own.
    message = (
        r"tasks\.source: 1 of 3 prompts are longer than tasks\.max_prompt_tokens 8, the"
        r" longest \(long\) has 23: raise it or set tasks\.too_long to 'skip'"
    )
    refuses(make_config(tasks__source=path), message)


def test_long_prompts_can_be_skipped_and_are_counted_once(
    make_config, tmp_path, letters
):
    rows = [*sums(2), *sums(1, id="long", prompt="1" * 20)]
    path = write_rows(tmp_path / "rows.jsonl", *rows)
    bench, _ = open_workbench(make_config(tasks__source=path, tasks__too_long="skip"))
    with bench:
        assert bench.num_skipped == 1
        assert {task.id for task in bench.stream.batch(0, 2)} == {"s/0", "s/1"}
        assert [task.id for task in bench.held_out] == ["s/0", "s/1"]


def test_skipping_everything_leaves_nothing(make_config, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", *sums(2, prompt="1" * 20))
    config = make_config(tasks__source=path, tasks__too_long="skip")
    refuses(config, r"no task .*max_prompt_tokens")


def test_a_held_out_set_of_its_own_is_named(make_config, tmp_path):
    path = write_rows(tmp_path / "held.jsonl", *sums(1, prompt="1" * 20))
    refuses(make_config(tasks__eval_source=path), r"tasks\.eval_source: 1 of 1 prompts")


def test_generated_prompts_fit_before_they_are_generated(make_config):
    # Held-out programs would fit: the first one that does not may come after hours.
    config = make_config(
        tasks__source="programs",
        tasks__eval_source="",
        tasks__max_prompt_tokens=38,
        update__row_length=256,
        eval__tasks=1,
    )
    refuses(config, r"max_prompt_tokens must hold generated prompts, up to 39 .*got 38")


def test_feedback_without_room_for_the_chat_template(make_config):
    config = make_config(rollout__max_feedback_tokens=3)
    refuses(config, r"max_feedback_tokens must hold the chat .* 4 tokens.*got 3")
    # Where nobody is tried again, nothing is appended.
    once = {"rollout__branching": (2,), "eval__turns": 1}
    bench, _ = open_workbench(make_config(rollout__max_feedback_tokens=3, **once))
    bench.verifier.close()


def test_caches_larger_than_allowed(make_config):
    config = make_config(sampler__cache_bytes=1000)
    refuses(config, r"cache_bytes is 1000 but .* rollout\.branching .* bytes: raise it")


def command(name, model_directory, *arguments):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            f"rlvr_jax.{name}",
            "--config=configs/quickstart.py",
            f"--config.model.path={model_directory}",
            *arguments,
        ],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--config.model.path=/nowhere"],
            r"wanted a Hugging Face folder, /nowhere is none",
        ),
        (["--config.update.row_length=9"], r"update\.row_length must hold the longest"),
    ],
)
def test_the_command_ends_with_one_line_and_two(
    model_directory, tmp_path, arguments, message
):
    workdir = tmp_path / "run"
    done = command("train", model_directory, f"--workdir={workdir}", *arguments)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: .*{message}.*\n", done.stderr), done.stderr
    assert not workdir.exists()
