"""Many devices train as one does, and their checkpoints are everybody's."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import packing
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.config import OptimizerSection
from rlvr_jax.training import loop
from rlvr_jax.training.step import TrainStep
from tests.meshes import MESHES, mesh_of, policy
from tests.packing import paths
from tests.training import tiny

# Sums in another order, of float32 in [1e-3, 1]: measured 3e-6 of the largest entry.
REORDERED = 1e-5


@functools.cache
def parts():
    """Two micro-batches of eight rows; the last rows are padding."""
    tree = paths.random_tree(0, num_prompts=8)
    credit = paths.random_credit(tree, 0)
    batch = tiny.pack(tree, tree.node_mask, *credit, tiny.SHORT)
    assert 8 < batch.num_rows < 16
    return list(packing.micro_batches(batch, 8))


def make_step(sizes):
    return TrainStep(
        policy(sizes)[0],
        objective=tiny.FULL,
        optimizer=OptimizerSection(weight_decay=0.1),
        num_steps=10,
        head_chunk=5,
        mesh=mesh_of(sizes),
    )


@functools.cache
def trained(sizes):
    """(log-probs, gradients, sums) on the host."""
    step, params = make_step(sizes), policy(sizes)[1]
    log_probs = [np.asarray(step.score(params, p, tiny.TEMPERATURE)) for p in parts()]
    gradients, sums = step.gradients(params, parts(), tiny.TEMPERATURE)
    assert gradients["head"].sharding == params["head"].sharding
    host = jax.tree.map(np.array, (gradients, sums))
    return np.concatenate(log_probs), *host


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_a_mesh_has_the_loss_and_the_gradient_of_one_device(sizes):
    expected, got = trained((1, 1, 1)), trained(sizes)
    np.testing.assert_allclose(got[0], expected[0], atol=1e-5, rtol=0)
    tiny.assert_close(got[1], expected[1], REORDERED)
    tiny.assert_close(got[2], expected[2], REORDERED)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected[1])) > 0.01


def started(sizes):
    """(train step, a state of its own)."""
    step = make_step(sizes)
    places = step.shardings.params
    return step, step.init(jax.jit(copied, out_shardings=places)(policy(sizes)[1]))


def copied(tree):
    return jax.tree.map(jnp.copy, tree)


def zeros(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def places_of(tree):
    return jax.tree.map(lambda x: x.sharding, tree)


def test_an_update_leaves_everything_where_it_is():
    updated = []
    for sizes in ((1, 1, 1), (2, 2, 2)):
        step, state = started(sizes)
        before = places_of(state)
        gradients, _ = trained(sizes)[1:]
        gradients = jax.device_put(gradients, before.params)
        state, metrics = step.update(state, gradients)
        state = step.advance(state)
        assert places_of(state) == before
        updated.append((jax.tree.map(np.array, state), float(metrics["grad/norm"])))
    # Adam takes its moments' places from the parameters; their values agree too.
    (one, norm), (many, same) = updated
    tiny.assert_close(many.opt_state, one.opt_state, REORDERED)
    np.testing.assert_allclose(same, norm, rtol=REORDERED)
    moments = before.opt_state[1]
    assert moments.mu == moments.nu == before.params


def test_a_checkpoint_goes_to_another_mesh(tmp_path):
    _, saved = started((2, 4, 1))
    expected = jax.tree.map(np.array, saved)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, saved, {})
        for sizes in ((8, 1, 1), (1, 1, 1)):
            _, like = started(sizes)
            like = jax.jit(zeros, out_shardings=places_of(like))(like)
            state, _ = checkpoints.restore(1, like)
            jax.tree.map(np.testing.assert_array_equal, state, expected)
            for leaf, other in zip(
                jax.tree.leaves(state), jax.tree.leaves(like), strict=True
            ):
                assert leaf.sharding.is_equivalent_to(other.sharding, leaf.ndim)


@pytest.mark.slow
def test_a_run_on_a_mesh_is_the_run_on_one_device(make_config, letters, tmp_path):
    """A minute: pytest -m slow tests/training/test_mesh.py"""
    rows = []
    for sizes in ((1, 1, 1), (2, 2, 2)):
        names = dict(zip(("data", "fsdp", "tensor"), sizes, strict=True))
        config = make_config(
            steps=2,
            rollout__branching=(4,),
            update__rows=4,
            checkpoint__every=2,
            **{f"mesh__{name}": size for name, size in names.items()},
        )
        workdir = tmp_path / str(sizes)
        loop.train(config, workdir, resume=None)
        lines = (workdir / "metrics.jsonl").read_text().splitlines()
        rows.append([json.loads(line) for line in lines])
    for one, many in zip(*rows, strict=True):
        assert one.keys() == many.keys()
        for name in one:
            if not name.startswith(("time/", "compile/")):
                assert many[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name
    assert rows[0][0]["grad/norm"] > 0


def test_a_mesh_that_does_not_fit_is_refused_at_start(make_config, letters, tmp_path):
    for changes, message in (
        ({"mesh__data": 3}, r"the product 3 must divide the 8 devices"),
        ({"mesh__tensor": 4}, r"mesh.tensor 4 must divide 2 heads, vocabulary 100"),
        ({"mesh__data": 8}, r"update.rows 2 must be a multiple of .* = 8"),
        (
            {"mesh__data": 8, "update__rows": 8},
            r"sampler.contexts 4 must be a multiple of .* = 8",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            loop.train(make_config(**changes), tmp_path / "run", resume=None)
    assert not (tmp_path / "run").exists()
