"""A run that was killed and goes on is the run that was not killed, bit for bit."""

import dataclasses
import gc
import json
import math
import os
import shutil
import signal

import jax
import numpy as np
import pytest

from rlvr_jax import envs, models
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.envs.verdict import unknown
from rlvr_jax.training import loop, workbench
from rlvr_jax.training.preemption import Preempted
from rlvr_jax.training.workbench import open_workbench
from rlvr_jax.training.workdir import saved_steps

STEPS = 6


class Killed(BaseException):
    """Ends a run the way a signal does: nothing of the run may handle it."""


@pytest.fixture
def train(monkeypatch, letters):
    """`loop.train`, which dies when it begins the step `dies_at`."""
    original = loop._train_once

    def train(config, workdir, *, resume=None, dies_at=None):
        def train_once(bench, train_step, state, step, *rest):
            if step == dies_at:
                raise Killed
            return original(bench, train_step, state, step, *rest)

        monkeypatch.setattr(loop, "_train_once", train_once)
        if dies_at is None:
            loop.train(config, workdir, resume=resume)
            return
        with pytest.raises(Killed):
            loop.train(config, workdir, resume=resume)

    return train


def metrics_of(workdir):
    """Rows of metrics, without times and compilations: those belong to a process."""
    rows = []
    for line in (workdir / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        process = ("time/", "compile/")
        rows.append({k: v for k, v in row.items() if not k.startswith(process)})
    return rows


def state_of(config, workdir, step):
    """Leaves of the state that a checkpoint holds."""
    bench, params = open_workbench(config)
    with bench, Checkpoints(workdir / "checkpoints") as checkpoints:
        like = loop.make_train_step(bench).init(params)
        state, note = checkpoints.restore(step, like)
    assert note["step"] == step
    assert int(state.step) == step
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def rollouts_of(workdir):
    return {p.name: p.read_text() for p in sorted((workdir / "rollouts").iterdir())}


@pytest.fixture(scope="module")
def straight_workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("straight") / "run"


@pytest.fixture
def run_config(make_config):
    # A schedule that moves at every step, warm-up included, and an evaluation.
    return make_config(
        steps=STEPS,
        optimizer__schedule="cosine",
        optimizer__warmup_steps=2,
        optimizer__weight_decay=0.1,
        objective__kl_coefficient=0.1,
        eval__every=3,
    )


@pytest.fixture
def straight(run_config, train, straight_workdir):
    """Workdir of the run that nothing disturbs."""
    if not straight_workdir.exists():
        train(run_config, straight_workdir)
    return straight_workdir


def test_the_run_learns_something_at_every_step(straight):
    rows = metrics_of(straight)
    assert [row["step"] for row in rows] == list(range(STEPS))
    # Without gradients, equal ends would prove nothing.
    assert all(row["grad/norm"] > 0 for row in rows)
    cosine = [0.01 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(4)]
    assert [row["optim/lr"] for row in rows] == pytest.approx([0.005, 0.01, *cosine])
    assert {"eval/iter_2", "eval/pass_at_1"} <= rows[2].keys()


def test_the_tasks_go_through_epochs(straight):
    order = []
    for text in rollouts_of(straight).values():
        rows = [json.loads(line) for line in text.splitlines()]
        order += [r["task"] for r in rows if r["parent"] is None and r["node"] == 0]
    # Two prompts a step of five tasks: the third step reaches over the end.
    assert len(set(order[:5])) == len(set(order[5:10])) == 5


def assert_same_run(config, one, other):
    assert metrics_of(one) == metrics_of(other)
    assert rollouts_of(one) == rollouts_of(other)
    pairs = zip(
        state_of(config, one, STEPS), state_of(config, other, STEPS), strict=True
    )
    for left, right in pairs:
        np.testing.assert_array_equal(left, right)


def test_resumed_equals_uninterrupted(straight, run_config, train, tmp_path):
    # Checkpoints are of steps 2 and 4: two steps are repeated, then one.
    train(run_config, tmp_path, dies_at=3)
    assert len(metrics_of(tmp_path)) == 3
    train(run_config, tmp_path, dies_at=5)
    assert len(metrics_of(tmp_path)) == 5
    train(run_config, tmp_path)
    assert_same_run(run_config, tmp_path, straight)


def test_told_to_stop_it_saves_and_goes_on(
    straight, run_config, train, tmp_path, monkeypatch
):
    original = loop.update

    def update(train_step, state, *arguments, **settings):
        if int(state.step) == 2:  # as a scheduler does, in the middle of a step
            os.kill(os.getpid(), signal.SIGTERM)
        return original(train_step, state, *arguments, **settings)

    monkeypatch.setattr(loop, "update", update)
    with pytest.raises(Preempted, match=r"saved after 3 of 6 steps"):
        train(run_config, tmp_path)
    assert saved_steps(tmp_path / "checkpoints") == [2, 3]
    # The signal means again what it meant before the run.
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    train(run_config, tmp_path)
    assert_same_run(run_config, tmp_path, straight)


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    straight, run_config, train, tmp_path
):
    train(run_config, tmp_path, dies_at=1)
    train(run_config, tmp_path, dies_at=4)
    rates = [row["optim/lr"] for row in metrics_of(tmp_path)]
    assert rates == [row["optim/lr"] for row in metrics_of(straight)][:4]


def test_going_back_to_a_step_repeats_what_came_later(
    straight, run_config, train, tmp_path
):
    workdir = tmp_path / "copy"
    shutil.copytree(straight, workdir)
    train(run_config, workdir, resume="2", dies_at=5)
    # The end of the earlier run is gone: the latest checkpoint is of this one.
    with Checkpoints(workdir / "checkpoints") as checkpoints:
        assert checkpoints.steps() == [2, 4]
    train(run_config, workdir, resume="latest")
    assert_same_run(run_config, workdir, straight)


def test_a_fork_goes_on_in_a_folder_of_its_own(straight, run_config, train, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(straight, source)
    shutil.rmtree(source / "checkpoints" / str(STEPS))
    fork = tmp_path / "fork"
    before = sorted(p.name for p in (source / "checkpoints").iterdir())
    train(run_config, fork, resume=str(source))
    assert metrics_of(fork) == metrics_of(straight)[4:]
    for left, right in zip(
        state_of(run_config, fork, STEPS),
        state_of(run_config, straight, STEPS),
        strict=True,
    ):
        np.testing.assert_array_equal(left, right)
    assert sorted(p.name for p in (source / "checkpoints").iterdir()) == before


def test_a_finished_run_stays_as_it_is(straight, run_config, train):
    before = (straight / "metrics.jsonl").read_text()
    train(run_config, straight)
    assert (straight / "metrics.jsonl").read_text() == before


# Orbax leaves its other reads behind when one of them fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("change", ["model", "optimizer"])
def test_a_checkpoint_of_something_else_changes_nothing(
    straight, run_config, train, tmp_path, change
):
    workdir = tmp_path / "copy"
    shutil.copytree(straight, workdir)
    before = {p: p.read_bytes() for p in workdir.rglob("*") if p.is_file()}
    if change == "model":
        path = str(wider_model(run_config, tmp_path / "wider"))
        section = dataclasses.replace(run_config.model, path=path)
    else:
        section = dataclasses.replace(run_config.optimizer, weight_decay=0.0)
    other = dataclasses.replace(run_config, **{change: section})
    with pytest.raises(ValueError, match=r"step 6 is of another model or optimizer"):
        train(other, workdir, resume="latest")
    gc.collect()
    assert {p: p.read_bytes() for p in workdir.rglob("*") if p.is_file()} == before


def wider_model(config, directory):
    """The model of a configuration with a wider feed-forward layer."""
    model, _ = models.load(config.model.path)
    shutil.copytree(config.model.path, directory)
    wider = dataclasses.replace(model.config, mlp_width=24)
    models.save(directory, *models.init(wider, jax.random.key(0)))
    return directory


def test_nan_stops_the_run_and_names_the_metric(
    run_config, letters, tmp_path, monkeypatch
):
    original = loop.update

    def broken(*arguments, **settings):
        state, assigned, metrics = original(*arguments, **settings)
        return state, assigned, metrics | {"grad/norm": float("nan")}

    monkeypatch.setattr(loop, "update", broken)
    with pytest.raises(FloatingPointError, match=r"step 0: grad/norm not finite"):
        loop.train(run_config, tmp_path, resume=None)
    assert not (tmp_path / "metrics.jsonl").exists()
    assert (tmp_path / "rollouts" / "step_000000.jsonl").exists()
    assert saved_steps(tmp_path / "checkpoints") == []


def test_a_run_goes_on_when_nothing_can_be_graded(make_config, tmp_path, monkeypatch):
    class Silent(envs.Verifier):
        def grade(self, task, response):
            return unknown("infrastructure")

    monkeypatch.setattr(workbench.envs, "make_verifier", lambda kind, **_: Silent())
    config = make_config(steps=2)
    loop.train(config, tmp_path, resume=None)
    rows = metrics_of(tmp_path)
    assert [row["groups/lost"] for row in rows] == [4, 4]
    assert [row["tokens/trained"] for row in rows] == [0, 0]
    start, end = (models.load(config.model.path)[1], state_of(config, tmp_path, 2))
    trained = end[: len(jax.tree.leaves(start))]
    for left, right in zip(jax.tree.leaves(start), trained, strict=True):
        np.testing.assert_array_equal(left, right)
