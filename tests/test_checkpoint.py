"""Checkpoints are complete or not there, and in the order of their numbers."""

import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.checkpoint import Checkpoints

ROOT = pathlib.Path(__file__).parent.parent


def state(value):
    return {"weights": jnp.full((2, 3), value, jnp.float32), "step": jnp.int32(value)}


def test_what_was_saved_comes_back(tmp_path):
    with Checkpoints(tmp_path / "run") as checkpoints:
        checkpoints.save(3, state(7.5), {"step": 3, "note": "x"})
    with Checkpoints(tmp_path / "run") as checkpoints:
        restored, note = checkpoints.restore(3, state(0))
    assert note == {"step": 3, "note": "x"}
    np.testing.assert_array_equal(restored["weights"], np.full((2, 3), 7.5))
    assert restored["step"].dtype == jnp.int32
    assert int(restored["step"]) == 7


def test_parameters_come_back_without_the_rest(tmp_path):
    whole = {"params": state(7.5), "opt_state": state(1), "step": jnp.int32(3)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, whole, {})
    with Checkpoints(tmp_path) as checkpoints:
        params = checkpoints.restore_params(3, state(0))
        assert params.keys() == {"weights", "step"}
        np.testing.assert_array_equal(params["weights"], np.full((2, 3), 7.5))
        with pytest.raises(ValueError, match="no complete checkpoint of step 4"):
            checkpoints.restore_params(4, state(0))
        other = {**state(0), "head": jnp.zeros(3)}
        with pytest.raises(ValueError, match=r"\['head'\] is not there, wanted \(3,\)"):
            checkpoints.restore_params(3, other)
        longer = {**state(0), "weights": jnp.zeros((4, 3))}
        with pytest.raises(ValueError, match=r"'\] is \(2, 3\), wanted \(4, 3\)"):
            checkpoints.restore_params(3, longer)
        with pytest.raises(ValueError, match=r"is of another model.*wanted nothing"):
            checkpoints.restore_params(3, {"step": jnp.int32(0)})


def test_steps_are_numbers_not_names(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (9, 10, 100):
            checkpoints.save(step, state(step), {})
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [9, 10, 100]


def test_the_newest_are_kept(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step in (8, 9, 10, 11):
            checkpoints.save(step, state(step), {})
        assert checkpoints.steps() == [10, 11]
    # Whoever only reads deletes nothing.
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [10, 11]


def test_some_are_kept_for_good(tmp_path):
    with Checkpoints(tmp_path, keep=1, keep_every=4) as checkpoints:
        for step in range(1, 11):
            checkpoints.save(step, state(step), {})
        assert checkpoints.steps() == [4, 8, 10]


def test_what_is_saved_may_be_donated_at_once(tmp_path):
    overwrite = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    value = jnp.arange(1 << 20, dtype=jnp.float32)
    expected = np.array(value)
    with Checkpoints(tmp_path) as checkpoints:
        for step in range(4):
            checkpoints.save(step, {"weights": value}, {})
            overwrite(value).block_until_ready()
            value = jnp.array(expected)
        for step in range(4):
            restored, _ = checkpoints.restore(step, {"weights": value})
            np.testing.assert_array_equal(restored["weights"], expected)


def test_later_checkpoints_can_be_dropped_and_written_again(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (2, 4, 6):
            checkpoints.save(step, state(step), {})
        checkpoints.delete_after(2)
        assert checkpoints.steps() == [2]
        checkpoints.save(4, state(40), {})
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [2, 4]
        assert int(checkpoints.restore(4, state(0))[0]["step"]) == 40


def test_an_unfinished_checkpoint_is_not_there(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state(1), {})
        checkpoints.save(2, state(2), {})
    # What a process leaves that is killed before the last rename of a save.
    shutil.move(tmp_path / "2", tmp_path / "2.orbax-checkpoint-tmp")
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [1]
        assert int(checkpoints.restore(1, state(0))[0]["step"]) == 1
        checkpoints.save(2, state(22), {})
        assert int(checkpoints.restore(2, state(0))[0]["step"]) == 22


SAVING = """
import sys, jax.numpy as jnp, pathlib
from rlvr_jax.checkpoint import Checkpoints
with Checkpoints(pathlib.Path(sys.argv[1])) as checkpoints:
    for step in range(1, 10**6):
        # Large enough that most of the time is spent in writing files.
        state = {"weights": jnp.full((2000, 2000), step, jnp.float32)}
        checkpoints.save(step, state, {"step": step})
        print(step, flush=True)
"""


def test_a_process_killed_while_saving_leaves_complete_checkpoints(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    # A save begins when the one before it is complete.
    assert process.stdout.readline() == "1\n"
    assert process.stdout.readline() == "2\n"
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*.orbax-checkpoint-tmp*")):
        assert time.monotonic() < deadline
    os.kill(process.pid, signal.SIGKILL)
    said = ["1", "2", *process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    like = {"weights": jnp.zeros((2000, 2000))}
    with Checkpoints(tmp_path) as checkpoints:
        # The last two may be complete or not there.
        assert len(said) - 1 <= len(checkpoints.steps()) <= len(said) + 1
        latest = checkpoints.steps()[-1]
        restored, note = checkpoints.restore(latest, like)
    assert note == {"step": latest}
    assert (np.asarray(restored["weights"]) == latest).all()


def test_a_step_that_is_not_there(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        with pytest.raises(ValueError, match=r"no complete .*step 3; it has none"):
            checkpoints.restore(3, state(0))
        checkpoints.save(5, state(1), {})
        with pytest.raises(ValueError, match=r"no complete .*step 3; it has \[5\]"):
            checkpoints.restore(3, state(0))


# Orbax leaves its other reads behind when one of them fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "like",
    [
        {"weights": jnp.zeros((2, 4)), "step": jnp.int32(0)},
        {"weights": jnp.zeros((2, 3))},
        {"weights": jnp.zeros((2, 3)), "step": jnp.int32(0), "more": jnp.zeros(1)},
    ],
    ids=["shape", "less", "more"],
)
def test_a_state_of_something_else(tmp_path, like):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state(1), {})
        with pytest.raises(
            ValueError, match=r"step 1 is of another model or optimizer"
        ):
            checkpoints.restore(1, like)
    gc.collect()
