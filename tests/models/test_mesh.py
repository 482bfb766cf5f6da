"""Families on a mesh of data, fsdp and tensor: the same function as on one device."""

import jax
import numpy as np
import pytest

from rlvr_jax import models, sharding
from rlvr_jax.models import placement
from tests.models.tiny import causal, tiny_config, tiny_model

CONFIGS = {
    "qwen2": tiny_config("qwen2", vocab_size=64, tied=False),
    # Its norm of queries and keys runs over heads of several devices.
    "olmo2": tiny_config("olmo2", vocab_size=64, tied=False),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_and_weights_on_a_mesh(name, tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "PIECE_BYTES", 4096)
    config = CONFIGS[name]
    model, params = tiny_model(config)
    models.save(tmp_path, model, params)
    mesh = sharding.make_mesh((2, 2, 2))
    places = sharding.parameter_shardings(
        mesh,
        models.logical_axes(config),
        sharding.TRAINING_RULES,
        num_kv_heads=config.num_kv_heads,
    )
    _, spread = models.load(tmp_path, shardings=places)
    assert jax.tree.map(lambda x: x.sharding, spread) == places
    jax.tree.map(np.testing.assert_array_equal, spread, params)

    tokens = np.random.default_rng(0).integers(0, 64, (4, 12)).astype(np.int32)
    positions, last_reader = causal(tokens)

    def hidden(params, *rows):
        return model.apply({"params": params}, *rows)

    expected = jax.jit(hidden)(params, tokens, positions, last_reader)
    with sharding.use(mesh):
        rows = sharding.put_rows(mesh, (tokens, positions, last_reader))
        # A function of its own: jit would take the program of one device.
        found = jax.jit(lambda *arguments: hidden(*arguments))(spread, *rows)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    models.save(tmp_path / "again", model, spread)
    _, again = models.load(tmp_path / "again")
    jax.tree.map(np.testing.assert_array_equal, again, params)
