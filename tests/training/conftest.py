"""A tiny model, a data set and a verifier without a sandbox, for whole runs."""

import dataclasses
import json
import os
import subprocess
import sys
import zlib

import jax
import pytest

from rlvr_jax import config as configs
from rlvr_jax import envs, models, tasks
from rlvr_jax.envs.verdict import Verdict
from rlvr_jax.training import workbench

VOCABULARY = 100  # of the character tokenizer


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory):
    """A Hugging Face directory with a random model of width 16 and one layer."""
    directory = tmp_path_factory.mktemp("model")
    tasks.build_character_tokenizer(directory)
    config = models.ModelConfig(
        family="llama",
        vocab_size=VOCABULARY,
        width=16,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=8,
        mlp_width=16,
        tied=True,
        initializer_range=0.2,
    )
    models.save(directory, *models.init(config, jax.random.key(0)))
    return directory


def write_rows(path, count, **changes):
    """A data set of `count` sums."""
    rows = [
        {"id": f"sum/{i}", "kind": "math", "prompt": f"{i}+1=", "answer": str(i + 1)}
        for i in range(count)
    ]
    lines = [json.dumps(row | changes) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def data_set(tmp_path_factory):
    """Five tasks: an epoch of theirs ends inside a step of two prompts."""
    return write_rows(tmp_path_factory.mktemp("data") / "sums.jsonl", 5)


class Letters(envs.Verifier):
    """Rewards a response for its letters: a signal that random weights can earn."""

    def grade(self, task, response):
        reward = (zlib.crc32(f"{task.id} {response}".encode()) % 8) / 8
        solved = reward > 0.7
        status = "passed" if solved else "failed"
        return Verdict(reward, solved, "no", status, 0, 1, solved)


@pytest.fixture
def letters(monkeypatch):
    """Runs are graded by `Letters`, whatever their tasks are."""
    monkeypatch.setattr(workbench.envs, "make_verifier", lambda kind, **_: Letters())


@pytest.fixture
def make_config(model_directory, data_set):
    """A function from changed fields (`rollout__prompts=3`) to a small run."""

    def make(**changes):
        values = configs.default_config().to_dict()
        small = {
            "steps": 4,
            "model__path": str(model_directory),
            "model__remat": False,
            "tasks__source": str(data_set),
            "tasks__max_prompt_tokens": 8,
            "rollout__prompts": 2,
            "rollout__branching": (2, 1),
            "rollout__max_response_tokens": 4,
            "rollout__max_feedback_tokens": 8,
            "sampler__contexts": (4,),
            "sampler__chunk": 4,
            "update__rows": 2,
            "update__row_length": 32,
            "update__target_length": 16,
            "update__head_chunk": 16,
            "optimizer__learning_rate": 1e-2,
            "eval__samples": 2,
            "eval__turns": 2,
            "eval__tasks": 3,
            "eval__pass_at": (1,),
            "checkpoint__every": 2,
            "checkpoint__keep": 10,
        }
        for name, value in (small | changes).items():
            *sections, field = name.split("__")
            place = values
            for section in sections:
                place = place[section]
            place[field] = value
        return configs.parse(values)

    return make


@pytest.fixture
def started(make_config, tmp_path):
    """A function: starts a command on the small run; compiled programs are shared."""
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

    def start(name, *arguments):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                f"rlvr_jax.{name}",
                f"--config={tmp_path / 'small.py'}",
                *arguments,
            ],
            env=os.environ | cache,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def flat(config):
    """`section.field` -> value."""
    values = {}
    for name, value in dataclasses.asdict(config).items():
        if isinstance(value, dict):
            values |= {f"{name}.{field}": v for field, v in value.items()}
        else:
            values[name] = value
    return values
