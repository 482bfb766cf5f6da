"""The folder of a run: where a start continues, and what it never touches."""

import pathlib

import jax.numpy as jnp
import pytest

from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.training import workdir as folders


def save(workdir, *steps):
    with Checkpoints(workdir / "checkpoints") as checkpoints:
        for step in steps:
            checkpoints.save(step, {"x": jnp.zeros(1)}, {})


@pytest.fixture
def run(tmp_path, make_config):
    """A folder that holds a run with checkpoints, and its configuration."""
    config = make_config()
    folders.claim(tmp_path / "run", config)
    save(tmp_path / "run", 9, 10, 100)
    return tmp_path / "run", config


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_new_folder_starts_fresh(tmp_path, make_config):
    for resume in (None, "latest", "none"):
        folder = tmp_path / "a" / "b"
        assert folders.find_source(folder, make_config(), resume) is None
    # Looking makes nothing.
    assert not folder.parent.exists()


@pytest.mark.parametrize("resume", [None, "latest"])
def test_the_latest_step_is_the_largest_number(run, resume):
    folder, config = run
    source = folders.find_source(folder, config, resume)
    assert source == folders.Source(folder / "checkpoints", 100)


def test_a_step_can_be_named(run):
    folder, config = run
    assert folders.find_source(folder, config, "9").step == 9


def test_another_run_can_be_forked(run, tmp_path, make_config):
    folder, _ = run
    new = tmp_path / "fork"
    source = folders.find_source(new, make_config(seed=5), str(folder))
    assert source == folders.Source(folder / "checkpoints", 100)


def test_other_settings_may_go_on_if_asked_to(run, make_config):
    folder, _ = run
    assert folders.find_source(folder, make_config(seed=5), "latest").step == 100


@pytest.mark.parametrize(
    ("resume", "changes", "message"),
    [
        (
            None,
            {"seed": 5},
            r"run holds a different run \(seed: 0 -> 5\): choose anoth",
        ),
        (None, {"eval__seed": 5}, r"different run \(eval\.seed: 17 -> 5\)"),
        (
            None,
            {"rollout__branching": (2, 2)},
            r"\(rollout\.branching: \[2, 1\] -> \[2, 2\]\)",
        ),
        ("none", {}, r"checkpoints of steps \[9, 10, 100\] and --resume=none would"),
        ("11", {}, r"--resume must be latest, none, a step .*\[9, 10, 100\].*got '11'"),
        (
            "somewhere",
            {},
            r"--resume must be .*folder of another run .*got 'somewhere'",
        ),
    ],
)
def test_what_would_lose_a_run_is_refused(run, make_config, resume, changes, message):
    folder, _ = run
    before = contents(folder)
    with pytest.raises(ValueError, match=message):
        folders.find_source(folder, make_config(**changes), resume)
    assert contents(folder) == before


def test_a_fork_into_a_folder_with_checkpoints_is_refused(run, tmp_path, make_config):
    folder, config = run
    save(tmp_path / "other", 3)
    with pytest.raises(ValueError, match=r"checkpoints of its own.*\[9, 10, 100\]: fo"):
        folders.find_source(folder, config, str(tmp_path / "other"))


def test_an_unfinished_checkpoint_is_no_place_to_start(run):
    folder, config = run
    saved = folder / "checkpoints" / "100"
    saved.rename(saved.with_name("100.orbax-checkpoint-tmp"))
    assert folders.find_source(folder, config, None).step == 10


def test_a_damaged_configuration_is_named(run):
    folder, config = run
    (folder / "config.json").write_text('{"seed": ')
    with pytest.raises(ValueError, match=r"config\.json is not JSON .*move it away"):
        folders.find_source(folder, config, None)


def test_no_checkpoints_without_a_folder():
    assert folders.saved_steps(pathlib.Path("/nowhere/at/all")) == []
