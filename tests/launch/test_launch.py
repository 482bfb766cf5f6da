"""The launchers: what they would run, and what they say when a process dies."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
LAUNCH = ROOT / "launch"
ARGUMENTS = ["--config=configs/quickstart.py:reapo", "--workdir=/runs/a b"]
# Stands for the training: told what to do by files beside it.
WORKER = """
import os, pathlib, signal, sys, time
index = os.environ["JAX_PROCESS_ID"]
print("number", index, "of", os.environ["JAX_NUM_PROCESSES"], sys.argv[1:], flush=True)
folder = pathlib.Path(os.environ["FOLDER"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
(folder / f"started_{index}").touch()
if index == os.environ.get("FAILS"):
    print("the device caught fire", file=sys.stderr)
    sys.exit(9)
if "HANGS" in os.environ:
    if os.environ["HANGS"] == index:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(100)
"""


def environment(**changes):
    """The test's own interpreter is the active environment."""
    bin_folder = pathlib.Path(sys.executable).parent
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "SLURM"))}
    return clean | {
        "VIRTUAL_ENV": str(bin_folder.parent),
        "PATH": f"{bin_folder}{os.pathsep}{clean['PATH']}",
        **changes,
    }


def dry_run(script, **changes):
    done = subprocess.run(
        ["bash", LAUNCH / script, *ARGUMENTS],
        env=environment(DRY_RUN="1", **changes),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_local_processes_dry_run():
    first, second, third = dry_run(
        "local_processes.sh", NUM_PROCESSES="3", COORDINATOR="host:1"
    )
    assert first == (
        "env JAX_COORDINATOR_ADDRESS=host:1 JAX_NUM_PROCESSES=3 JAX_PROCESS_ID=0 python"
        " -m rlvr_jax.train --config=configs/quickstart.py:reapo --workdir=/runs/a\\ b "
    )
    assert "JAX_PROCESS_ID=1" in second and "JAX_PROCESS_ID=2" in third


def test_gpu_node_dry_run():
    (line,) = dry_run("gpu_node.sh")
    assert line.startswith("exec python -m rlvr_jax.train --config=")


def test_slurm_dry_run():
    (line,) = dry_run("slurm.sbatch")
    assert line.startswith("srun --kill-on-bad-exit=1 --label python -m rlvr_jax.train")


def test_tpu_pod_dry_run():
    settings = {"TPU_NAME": "t", "ZONE": "z", "ACCELERATOR": "v5litepod-64"}
    settings |= {"SOURCE": "gs://b/s.tar.gz", "SPOT": "1", "PROJECT": "p"}
    create, install, train = dry_run("tpu_pod.sh", **settings)
    assert create.startswith("gcloud compute tpus queued-resources create t")
    for word in ("--accelerator-type=v5litepod-64", "--spot", "--zone=z --project=p"):
        assert word in create
    for line in (install, train):
        assert line.startswith("gcloud compute tpus tpu-vm ssh t --worker=all")
    assert "gs://b/s.tar.gz" in install
    assert "rlvr_jax.train" in train


def test_tpu_pod_names_what_is_missing():
    done = subprocess.run(
        ["bash", LAUNCH / "tpu_pod.sh"],
        env=environment(TPU_NAME="t", ZONE="z"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: set ACCELERATOR: its type as gcloud names it")


def test_the_jobset_is_whole_once_its_variables_are_set():
    text = (LAUNCH / "gke_jobset.yaml").read_text()
    values = {"HOSTS": "16", "CHIPS_PER_HOST": "4"}
    for name in ("NAME", "IMAGE", "ACCELERATOR", "TOPOLOGY", "ARGUMENTS", "BUCKET"):
        values[name] = name.lower()
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    spec = yaml.safe_load(text)["spec"]
    assert "${" not in text
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert job["parallelism"] == job["completions"] == 16
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"][-1] == "exec python -m rlvr_jax.train arguments"
    codes = job["podFailurePolicy"]["rules"][0]["onExitCodes"]
    shared = (LAUNCH / "processes.sh").read_text()
    assert f"REQUEUE={codes['values'][0]}" in shared


@pytest.fixture
def start(tmp_path):
    """A function: starts local_processes.sh with workers that the settings steer."""
    (tmp_path / "worker.py").write_text(WORKER)

    def begin(**settings):
        return subprocess.Popen(
            ["bash", LAUNCH / "local_processes.sh", "--flag"],
            env=environment(
                MODULE="worker",
                PYTHONPATH=str(tmp_path),
                FOLDER=str(tmp_path),
                LOGS=str(tmp_path / "logs"),
                GRACE="1",
                **settings,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


def test_processes_that_end_well(start, tmp_path):
    running = start(NUM_PROCESSES="2")
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")
    assert "number 0 of 2 ['--flag']" in output
    assert "number 1 of 2" in (tmp_path / "logs" / "1.log").read_text()


def test_the_one_that_fails_is_named_and_the_others_end(start):
    begin = time.monotonic()
    # Process 0 does not even listen to the request to stop.
    running = start(NUM_PROCESSES="3", FAILS="2", HANGS="0")
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 9
    assert "error: process 2 of 3 ended with exit code 9" in errors
    assert "[2] the device caught fire" in errors
    assert time.monotonic() - begin < 30


def test_told_to_stop_they_save(start, tmp_path):
    running = start(NUM_PROCESSES="2", HANGS="none")
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("started_*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 75
    assert "saved and stopped (exit code 75): run this again to go on" in errors


def test_a_number_of_processes_that_is_none(start):
    running = start(NUM_PROCESSES="0")
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 2
    assert "NUM_PROCESSES: wanted 1 or more, got 0" in errors
