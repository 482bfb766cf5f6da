"""Several processes train as one does (gloo, on this host).

pytest -m slow tests/training/test_processes.py
"""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import pytest

from rlvr_jax import models
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.config import to_json
from rlvr_jax.training.step import TrainStep
from tests.training import tiny
from tests.training.conftest import write_rows

ROOT = pathlib.Path(__file__).parents[2]
# Sums over rows in another order, once per step: metrics move by about 1e-7.
REORDERED = 1e-5


def start(configs, workdir, silent="", devices=1):
    """Processes of one run, each with a configuration; [(exit code, stderr), ...]."""
    fake = f"--xla_force_host_platform_device_count={devices}"
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = []
    for number, config in enumerate(configs):
        settings = workdir.with_name(f"{workdir.name}_{number}.json")
        settings.write_text(to_json(config))
        environment = os.environ | {
            "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
            "JAX_NUM_PROCESSES": str(len(configs)),
            "JAX_PROCESS_ID": str(number),
            "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(ROOT),
            "XLA_FLAGS": f"--xla_backend_optimization_level=0 {fake}",
        }
        command = [sys.executable, "-m", "tests.training.process"]
        processes.append(
            subprocess.Popen(
                [*command, str(settings), str(workdir), silent],
                cwd=ROOT,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ends = []
    try:
        for process in processes:
            _, words = process.communicate(timeout=500)
            ends.append((process.returncode, words))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return ends


def curve(workdir):
    rows = []
    for line in (workdir / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        process = ("time/", "compile/")
        rows.append({k: v for k, v in row.items() if not k.startswith(process)})
    return rows


def attempts(workdir):
    """Every attempt of all rollout files, in the order of prompts."""
    files = sorted((workdir / "rollouts").iterdir(), key=lambda p: p.name.split(".")[0])
    return sorted(
        (row["step"], row["task"], row["node"], row["response"], row["reward"])
        for file in files
        for row in map(json.loads, file.read_text().splitlines())
    )


def last_weights(config, workdir):
    """Parameters of the last checkpoint, on one device."""
    model, params = models.load(config.model.path)
    step = TrainStep(
        model,
        objective=config.objective,
        optimizer=config.optimizer,
        num_steps=config.steps,
        head_chunk=config.update.head_chunk,
    )
    with Checkpoints(workdir / "checkpoints") as checkpoints:
        state, _ = checkpoints.restore(checkpoints.steps()[-1], step.init(params))
    return state.params


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uneven", "empty", "silent", "mesh"])
def test_two_processes_have_the_curve_of_one(make_config, tmp_path, case):
    changes = {
        # Three prompts: two and one.
        "uneven": {"rollout__prompts": 3, "eval__every": 2},
        # One prompt: process 1 samples nothing.
        "empty": {"rollout__prompts": 1, "rollout__branching": (4,)},
        # Two tasks, one of them never graded: someone has no usable row at each step.
        "silent": {"tasks__source": str(write_rows(tmp_path / "two.jsonl", 2))},
        # Two devices each: weights cut over processes, heads over a process's own.
        "mesh": {"rollout__branching": (4,), "update__minibatches": 2},
    }[case]
    silent = "sum/1" if case == "silent" else ""
    settings = {
        "steps": 3,
        "checkpoint__every": 2,
        "objective__kl_coefficient": 0.1,
        "objective__old_log_probs": "recompute",
        **changes,
    }
    one = make_config(**settings)
    two = make_config(**settings, mesh__data=-1)
    devices = 1
    if case == "mesh":
        two = make_config(**settings, mesh__fsdp=2, mesh__tensor=2)
        devices = 2
    ends = start([one], tmp_path / "one", silent)
    assert ends[0][0] == 0, ends[0][1]
    ends = start([two, two], tmp_path / "two", silent, devices)
    assert [code for code, _ in ends] == [0, 0], "\n".join(w for _, w in ends)
    expected, got = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(expected) == len(got) == 3
    for row, other in zip(expected, got, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            close = pytest.approx(value, rel=REORDERED, abs=1e-6)
            assert other[name] == close, name
    assert any(row["grad/norm"] > 0 for row in expected if "grad/norm" in row)
    assert attempts(tmp_path / "one") == attempts(tmp_path / "two")
    # What two processes saved, one reads.
    weights = [last_weights(one, tmp_path / name) for name in ("two", "one")]
    tiny.assert_close(*weights, REORDERED)


@pytest.mark.slow
def test_a_process_with_another_configuration_is_refused(make_config, tmp_path):
    configs = [make_config(mesh__data=-1, seed=seed) for seed in (0, 1)]
    ends = start(configs, tmp_path / "run")
    for number, (code, words) in enumerate(ends):
        assert code != 0
        assert (
            "configuration: process 1 of 2 started with another one than process 0"
            f" (this is process {number})" in words
        )
    assert not (tmp_path / "run").exists()
