"""A tiny model that divides over eight devices, and the meshes it is tried on."""

import functools

import jax

from rlvr_jax import models, sharding

MESHES = ((8, 1, 1), (2, 4, 1), (2, 2, 2), (1, 1, 8))
CONFIG = models.ModelConfig(
    family="qwen3",
    vocab_size=64,
    width=16,
    num_layers=2,
    num_heads=8,
    num_kv_heads=2,
    head_dim=4,
    mlp_width=24,
    qk_norm=True,
    initializer_range=0.4,
)


@functools.cache
def mesh_of(sizes):
    """The mesh of these sizes; None for one device."""
    return sharding.make_mesh(sizes)


def places_of(mesh, rules=sharding.TRAINING_RULES):
    """Where the parameters of the tiny model lie."""
    axes = models.logical_axes(CONFIG)
    return sharding.parameter_shardings(
        mesh, axes, rules, num_kv_heads=CONFIG.num_kv_heads
    )


@functools.cache
def policy(sizes):
    """(model, parameters born on the mesh); nobody may donate these."""
    model, params = models.init(
        CONFIG, jax.random.key(0), shardings=places_of(mesh_of(sizes))
    )
    return model.clone(remat=False), params
