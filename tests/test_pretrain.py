"""The pretrain command, run as a user runs it."""

import os
import pathlib
import subprocess
import sys

import numpy as np

from rlvr_jax import models
from rlvr_jax.tasks import load_tokenizer

ROOT = pathlib.Path(__file__).parent.parent


def run(*arguments):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "rlvr_jax.pretrain",
            "--config=configs/tiny_base.py",
            *arguments,
        ],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )


def test_writes_a_directory_that_loads(tmp_path):
    output = tmp_path / "base"
    done = run(
        f"--output={output}",
        "--config.steps=2",
        "--config.prompts=2",
        "--config.shape.width=16",
        "--config.shape.layers=1",
        "--config.shape.mlp_width=16",
    )
    assert done.returncode == 0, done.stderr
    assert "step 0: loss 4." in done.stdout
    model, params = models.load(output)
    tokenizer = load_tokenizer(output)
    assert (model.config.width, model.config.num_layers) == (16, 1)
    tokens = np.array([tokenizer.prompt_ids("f(1)=2")], np.int32)
    assert np.isfinite(models.logits(model, params, tokens)).all()


def test_bad_configurations_end_with_2_and_one_line(tmp_path):
    done = run(f"--output={tmp_path}", "--config.demonstrations.mistake_share=1.0")
    assert done.returncode == 2
    assert "demonstrations.mistake_share must be in [0, 1); got 1.0" in done.stderr
    assert "Traceback" not in done.stderr
