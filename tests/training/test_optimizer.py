"""AdamW by hand and against optax's own, and the schedule step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr_jax.config import OptimizerSection
from rlvr_jax.training.optimizer import learning_rate, make_optimizer


def params():
    rng = np.random.default_rng(0)
    shapes = {
        "embed": (5, 4),
        "norm": (4,),
        "head": (4, 5),
        "layers": {"query": (3, 4, 4), "query_bias": (3, 4), "mlp_norm": (3, 4)},
    }
    return jax.tree.map(
        lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32),
        shapes,
        is_leaf=lambda shape: isinstance(shape, tuple),
    )


def gradients(scale=1.0):
    return jax.tree.map(lambda x: scale * (x - 0.5), params())


def applied(section, slopes, count=3):
    """Parameters after `count` updates, as the train step applies them."""
    optimizer, values = make_optimizer(section), params()
    state = optimizer.init(values)
    for _ in range(count):
        changes, state = optimizer.update(slopes, state, values)
        rate = section.learning_rate
        values = jax.tree.map(lambda x, change: x - rate * change, values, changes)  # noqa: B023
    return values


def matrices(values):
    names = {"embed", "head", "query"}
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path[-1].key in names, values
    )


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_three_updates_equal_adamw(decay, clip, scale):
    section = OptimizerSection(
        learning_rate=0.05,
        b1=0.8,
        b2=0.95,
        epsilon=1e-3,
        weight_decay=decay,
        clip_norm=clip,
    )
    adamw = optax.adamw(0.05, 0.8, 0.95, 1e-3, weight_decay=decay, mask=matrices)
    slopes = gradients(scale)
    norm = float(optax.tree.norm(slopes))
    shrink = min(1.0, clip / norm) if clip else 1.0
    assert (shrink < 1) == (clip == 1 and scale == 3)
    expected = params()
    state = adamw.init(expected)
    for _ in range(3):
        clipped = jax.tree.map(lambda x: x * shrink, slopes)
        changes, state = adamw.update(clipped, state, expected)
        expected = optax.apply_updates(expected, changes)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        applied(section, slopes),
        expected,
    )


def test_decay_pulls_matrices_alone():
    section = OptimizerSection(learning_rate=0.1, weight_decay=0.5)
    zero = jax.tree.map(jnp.zeros_like, params())
    got, before = applied(section, zero, count=1), params()
    for name in ("embed", "head"):
        np.testing.assert_allclose(got[name], 0.95 * before[name], rtol=1e-6)
    np.testing.assert_array_equal(got["norm"], before["norm"])
    layers, old = got["layers"], before["layers"]
    np.testing.assert_allclose(layers["query"], 0.95 * old["query"], rtol=1e-6)
    # [layers, width] is a stack of vectors, not a matrix.
    for name in ("query_bias", "mlp_norm"):
        np.testing.assert_array_equal(layers[name], old[name])


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("constant", 0, [1, 1, 1, 1, 1, 1, 1]),
        ("constant", 1, [1, 1, 1, 1, 1, 1, 1]),
        ("constant", 2, [1 / 2, 1, 1, 1, 1, 1, 1]),
        ("constant", 4, [1 / 4, 2 / 4, 3 / 4, 1, 1, 1, 1]),
        ("linear", 0, [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0, 0]),
        ("linear", 2, [1 / 2, 1, 1, 3 / 4, 2 / 4, 1 / 4, 0, 0]),
        ("cosine", 0, [(1 + np.cos(np.pi * i / 6)) / 2 for i in range(7)] + [0]),
        ("cosine", 2, [1 / 2, 1] + [(1 + np.cos(np.pi * i / 4)) / 2 for i in range(5)]),
        ("constant", 9, [i / 9 for i in range(1, 7)]),
    ],
)
def test_schedules(schedule, warmup, expected):
    section = OptimizerSection(
        learning_rate=0.3, schedule=schedule, warmup_steps=warmup
    )
    rate = learning_rate(section, 6)
    got = [float(rate(step)) for step in range(len(expected))]
    np.testing.assert_allclose(got, 0.3 * np.array(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_every_step_of_a_run_moves(schedule):
    for warmup, steps in [(0, 1), (3, 8), (8, 8), (12, 8)]:
        section = OptimizerSection(schedule=schedule, warmup_steps=warmup)
        rate = learning_rate(section, steps)
        assert all(float(rate(step)) > 0 for step in range(steps))
