"""A tiny model that divides over eight devices, and the meshes it is tried on."""

import dataclasses
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
def weights(num_layers=CONFIG.num_layers):
    """Random weights on one device; nobody may donate these."""
    config = dataclasses.replace(CONFIG, num_layers=num_layers)
    return models.init(config, jax.random.key(0))[1]


@functools.cache
def policy(sizes, num_layers=CONFIG.num_layers):
    """(model, parameters on the mesh); nobody may donate these."""
    config = dataclasses.replace(CONFIG, num_layers=num_layers)
    model = models.Decoder(config, remat=False)
    places = places_of(mesh_of(sizes))
    params = weights(num_layers)
    return model, params if places is None else jax.device_put(params, places)
