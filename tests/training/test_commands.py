"""The commands themselves, as processes: their files, lines and exit codes."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import jax
import pytest


@pytest.fixture
def command(make_config, tmp_path):
    """A function that runs a command on the small run; compiled programs are shared."""
    config = make_config(rollout__branching=(2, 1), eval__expand="visible_failed")
    (tmp_path / "small.py").write_text(
        "from rlvr_jax import config\n"
        "def get_config():\n"
        "    values = config.default_config()\n"
        f"    values.update_from_flattened_dict({flat(config)!r})\n"
        "    return values\n"
    )
    cache = {
        name.upper(): str(getattr(jax.config, name))
        for name in (
            "jax_compilation_cache_dir",
            "jax_persistent_cache_min_compile_time_secs",
            "jax_persistent_cache_min_entry_size_bytes",
        )
    }

    def run(name, *arguments):
        return subprocess.run(
            [
                sys.executable,
                "-m",
                f"rlvr_jax.{name}",
                f"--config={tmp_path / 'small.py'}",
                *arguments,
            ],
            env=os.environ | cache,
            capture_output=True,
            text=True,
        )

    return run


def flat(config):
    """`section.field` -> value."""
    values = {}
    for name, value in dataclasses.asdict(config).items():
        if isinstance(value, dict):
            values |= {f"{name}.{field}": v for field, v in value.items()}
        else:
            values[name] = value
    return values


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
