"""A run that trains adapters: a frozen base, small checkpoints, exact resumes."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from rlvr_jax import models
from rlvr_jax.training import loop
from rlvr_jax.training.workbench import open_workbench
from rlvr_jax.training.workdir import restored_params

TARGETS = ("query", "down")


@pytest.fixture
def run_config(make_config):
    return make_config(
        steps=3,
        lora__rank=2,
        lora__targets=TARGETS,
        lora__alpha=4.0,
        objective__kl_coefficient=0.1,
        checkpoint__every=1,
        eval__every=3,
    )


@pytest.fixture(scope="module")
def workdir_path(tmp_path_factory):
    return tmp_path_factory.mktemp("lora") / "run"


@pytest.fixture
def workdir(run_config, letters, workdir_path):
    """Folder of a run of three steps."""
    if not workdir_path.exists():
        loop.train(run_config, workdir_path, resume=None)
    return workdir_path


def metrics_of(workdir):
    """Rows of metrics, without times and compilations."""
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    process = ("time/", "compile/")
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith(process)}
        for line in lines
    ]


def test_the_sampler_and_the_trainer_agree_and_the_adapters_move(workdir, run_config):
    rows = metrics_of(workdir)
    assert all(row["grad/norm"] > 0 for row in rows)
    # The bound that is stated for float32.
    assert max(row["policy/sampler_gap"] for row in rows) <= 1e-5
    # The reference is the base: they are one before the first step, and then part.
    assert rows[0]["policy/kl_k1"] == pytest.approx(0, abs=1e-6)
    assert abs(rows[2]["policy/kl_k1"]) > 1e-4
