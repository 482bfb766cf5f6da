"""One tiny policy and its compiled train steps, shared by the tests of this folder."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import models, packing
from rlvr_jax.config import ObjectiveSection, OptimizerSection
from rlvr_jax.training.step import TrainStep
from tests.packing import paths

TEMPERATURE = 0.7
SHORT, LONG = (28, 12), (120, 70)  # (tokens, targets) of a row
CLIP = ObjectiveSection()
FULL = ObjectiveSection(
    old_log_probs="recompute", kl_coefficient=0.2, dual_clip=1.5, clip_high=0.28
)
RESPONSES = ObjectiveSection(
    surrogate="gspo",
    clip_low=0.05,
    clip_high=0.05,
    old_log_probs="recompute",
    kl="k2",
    kl_coefficient=0.2,
    entropy_coefficient=0.1,
    tis="response",
    tis_cap=1.1,
)
CONFIG = models.ModelConfig(
    family="llama",
    vocab_size=paths.VOCABULARY,
    width=8,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=4,
    mlp_width=12,
    tied=True,
    initializer_range=0.5,
)


@functools.cache
def policy(seed=0):
    """(model, parameters); nobody may donate these."""
    model, params = models.init(CONFIG, jax.random.key(seed))
    return model.clone(remat=False), params  # compiles faster


@functools.cache
def make_step(objective=CLIP, **optimizer):
    """The train step of these settings, compiled once per shape in all tests."""
    section = OptimizerSection(**{"learning_rate": 0.1, **optimizer})
    return TrainStep(
        policy()[0], objective=objective, optimizer=section, num_steps=10, head_chunk=5
    )


def copied(params):
    """Parameters that an update may consume."""
    return jax.tree.map(jnp.copy, params)


def assert_close(actual, expected, tolerance=1e-5):
    """No entry differs by more than `tolerance` times the largest one of all leaves."""
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(expected))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest),
        actual,
        expected,
    )


def pack(tree, train_mask, advantages, weights, shape):
    """Rows of `shape`."""
    return packing.pack(
        tree,
        advantages=advantages,
        weights=weights,
        train_mask=train_mask,
        row_length=shape[0],
        target_length=shape[1],
    )
