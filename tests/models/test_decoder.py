"""The decoder: who sees whom, and the scan equals layer after layer."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import models
from rlvr_jax.models.attention import attention
from rlvr_jax.models.rotary import YarnScaling
from tests.models.tiny import (
    causal,
    hidden_states,
    naive_attention,
    tiny_config,
    tiny_model,
)

CONFIGS = {
    "llama": tiny_config("llama"),
    "qwen2": tiny_config("qwen2", tied=False),
    "qwen3": tiny_config("qwen3", tied=False),
    "olmo2": tiny_config("olmo2", tied=False, rope_scaling=YarnScaling(4.0, 4)),
}
LENGTH = 12


@pytest.fixture(scope="module", params=CONFIGS)
def model_and_params(request):
    return tiny_model(CONFIGS[request.param])


@pytest.fixture(scope="module")
def llama():
    return tiny_model(CONFIGS["llama"])


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(0, 61, (2, LENGTH)).astype(np.int32)


def hidden_from_embeddings(model, params, positions, last_reader):
    """Hidden states as a function of one embedding per token of the row.

    The table gets a row per token, so that gradients tell the tokens apart.
    """
    rows, length = positions.shape
    own = dataclasses.replace(model.config, vocab_size=rows * length, tied=True)
    model = model.clone(config=own)
    tokens = np.arange(rows * length, dtype=np.int32).reshape(rows, length)

    def hidden(embeddings):
        inner = {**params, "embed": embeddings.reshape(rows * length, -1)}
        inner.pop("head", None)
        return model.apply({"params": inner}, tokens, positions, last_reader)

    return hidden


def readers(model, params, positions, last_reader, queries):
    """For each query, the tokens of a one-row batch that move its hidden state."""
    hidden = hidden_from_embeddings(model, params, positions, last_reader)
    shape = (*positions.shape, model.config.width)
    embeddings = jax.random.normal(jax.random.key(1), shape)
    weights = jax.random.normal(jax.random.key(2), shape[-1:])
    gradient = jax.jit(jax.grad(lambda e, query: hidden(e)[0, query] @ weights))
    sizes = [np.abs(gradient(embeddings, i)[0]).max(axis=-1) for i in queries]
    return [np.flatnonzero(size).tolist() for size in sizes]


def test_later_tokens_have_exactly_no_gradient():
    positions, last_reader = causal(np.zeros((1, LENGTH)))
    qwen = tiny_model(CONFIGS["qwen3"])
    seen = readers(*qwen, positions, last_reader, [0, 5, LENGTH - 1])
    assert seen == [[0], list(range(6)), list(range(LENGTH))]


def test_other_branches_have_exactly_no_gradient(llama):
    # Prompt 0..2, first sibling 3..6, second sibling 7..10, padding 11.
    last_reader = np.array([[10] * 3 + [6] * 4 + [10] * 4 + [11]], np.int32)
    positions = np.array([[0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0]], np.int32)
    seen = readers(*llama, positions, last_reader, [5, 9, 11])
    assert seen == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 7, 8, 9], [11]]


def test_two_siblings_in_a_row_equal_two_rows(model_and_params):
    model, params = model_and_params
    rng = np.random.default_rng(3)
    prompt, first, second = (rng.integers(0, 61, n) for n in (4, 5, 3))
    # One row with both, then a row for each; 0 pads and reads itself alone.
    rows = np.zeros((3, 13), np.int32)
    rows[0, :12] = np.concatenate([prompt, first, second])
    rows[1, :9] = np.concatenate([prompt, first])
    rows[2, :7] = np.concatenate([prompt, second])
    positions = np.zeros((3, 13), np.int32)
    positions[0, :12] = [*range(9), *range(4, 7)]
    positions[1, :9] = range(9)
    positions[2, :7] = range(7)
    last_reader = np.tile(np.arange(13, dtype=np.int32), (3, 1))
    last_reader[0, :12] = [11] * 4 + [8] * 5 + [11] * 3
    last_reader[1, :9] = 8
    last_reader[2, :7] = 6
    hidden = hidden_states(model, params, rows, positions, last_reader)
    np.testing.assert_allclose(hidden[0, :9], hidden[1, :9], atol=2e-5)
    np.testing.assert_allclose(hidden[0, :4], hidden[2, :4], atol=2e-5)
    np.testing.assert_allclose(hidden[0, 9:12], hidden[2, 4:7], atol=2e-5)


def test_layer_by_layer_equals_the_scan(model_and_params, tokens):
    model, params = model_and_params
    positions, last_reader = causal(tokens)
    called = []

    def attend(layer, q, k, v):
        called.append(layer)
        return naive_attention(q, k, v, last_reader), k

    @jax.jit
    def forward(params):
        layered = models.unstack(model, params, jnp.float32)
        hidden, aux = models.forward_layers(model, layered, tokens, positions, attend)
        return hidden, aux, models.head_logits(model, layered, hidden)

    hidden, keys, logits = forward(params)
    expected = hidden_states(model, params, tokens, positions, last_reader)
    np.testing.assert_allclose(hidden, expected, atol=2e-5)
    assert called == [0, 1]
    config = model.config
    assert len(keys) == 2
    assert keys[0].shape == (2, LENGTH, config.num_kv_heads, config.head_dim)
    expected = models.logits(model, params, tokens)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_leading_axes_are_arbitrary(llama, tokens):
    model, params = llama
    layered = jax.jit(lambda p: models.unstack(model, p, jnp.float32))(params)

    def alone(layer, q, k, v):
        # Each token reads itself only.
        return jnp.repeat(v, model.config.num_heads // v.shape[-2], axis=-2), None

    @jax.jit
    def forward(tokens):
        return [
            models.forward_layers(
                model,
                layered,
                tokens.reshape(shape),
                jnp.full(shape, 3),
                alone,
            )[0].reshape(-1)
            for shape in [(24,), (2, 12), (2, 3, 4)]
        ]

    flat, rows, branches = forward(tokens)
    np.testing.assert_allclose(flat, rows, atol=1e-5)
    np.testing.assert_allclose(flat, branches, atol=1e-5)


def test_only_the_distance_of_positions_counts(llama, tokens):
    model, params = llama
    positions, last_reader = causal(tokens)
    here = hidden_states(model, params, tokens, positions, last_reader)
    there = hidden_states(model, params, tokens, positions + 7, last_reader)
    wider = hidden_states(model, params, tokens, positions * 2, last_reader)
    np.testing.assert_allclose(here, there, atol=1e-4)
    assert np.abs(here - wider).max() > 1e-2


def test_remat_changes_nothing(llama, tokens):
    model, params = llama

    def loss(params, model):
        hidden = model.apply({"params": params}, tokens, *causal(tokens))
        return jnp.sum(jnp.sin(hidden))

    gradient = jax.jit(jax.grad(loss), static_argnums=1)
    with_remat = gradient(params, model)
    without = gradient(params, model.clone(remat=False))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), with_remat, without
    )
    # Attention has its own, so only the number tells that the layer has one more.
    counts = [
        str(jax.make_jaxpr(loss, static_argnums=1)(params, each)).count("remat")
        for each in (model, model.clone(remat=False))
    ]
    assert counts[0] > counts[1]


def test_unstack_casts_matrices_and_keeps_vectors(model_and_params):
    model, params = model_and_params
    layered = jax.jit(lambda p: models.unstack(model, p, jnp.bfloat16))(params)
    assert len(layered["layers"]) == model.config.num_layers
    assert ("head" in layered) == (not model.config.tied)
    for index, layer in enumerate(layered["layers"]):
        for name, x in layer.items():
            stacked = params["layers"][name]
            assert x.dtype == (jnp.bfloat16 if stacked.ndim == 3 else jnp.float32)
            expected = np.asarray(stacked)[index].astype(x.dtype)
            np.testing.assert_array_equal(x, expected)


def test_bfloat16_training_and_decoding_agree(llama, tokens):
    model, params = llama
    model = model.clone(dtype=jnp.bfloat16)
    positions, last_reader = causal(tokens)
    hidden = hidden_states(model, params, tokens, positions, last_reader)
    assert hidden.dtype == jnp.bfloat16
    layered = jax.jit(lambda p: models.unstack(model, p, jnp.bfloat16))(params)

    def attend(layer, q, k, v):
        return attention(q, k, v, last_reader), None

    @jax.jit
    def forward(layered):
        return models.forward_layers(model, layered, tokens, positions, attend)[0]

    other = forward(layered)
    exact = hidden_states(
        model.clone(dtype=jnp.float32), params, tokens, positions, last_reader
    )
    # bfloat16 has 8 bits: both differ from float32, and hardly from each other.
    gap = np.abs(hidden.astype(np.float32) - other.astype(np.float32)).mean()
    error = np.abs(hidden.astype(np.float32) - exact).mean()
    assert gap < 0.5 * error < 0.05


def test_gradients_of_bfloat16_compute_are_float32(llama, tokens):
    model, params = llama
    model = model.clone(dtype=jnp.bfloat16)

    def loss(params):
        hidden = model.apply({"params": params}, tokens, *causal(tokens))
        return jnp.sum(hidden.astype(jnp.float32) ** 2)

    gradients = jax.eval_shape(jax.grad(loss), params)
    assert {x.dtype for x in jax.tree.leaves(gradients)} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("name", CONFIGS)
def test_logical_axes_match_the_parameters(name):
    config = CONFIGS[name]
    _, params = tiny_model(config)
    axes = models.logical_axes(config)
    assert jax.tree.structure(params) == jax.tree.structure(
        axes, is_leaf=lambda x: isinstance(x, tuple)
    )
    # Axis names say sizes: the same name is as long everywhere.
    sizes = {}

    def check(x, names):
        assert x.ndim == len(names)
        for size, axis in zip(x.shape, names, strict=True):
            assert sizes.setdefault(axis, size) == size

    jax.tree.map(check, params, axes)
    assert sizes["layers"] == config.num_layers
    assert axes["layers"]["query"] == ("layers", "embed", "heads")


@pytest.mark.parametrize("name", CONFIGS)
def test_init_of_each_family(name):
    config = CONFIGS[name]
    _, params = models.init(config, jax.random.key(0))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(
        jnp.shape, tiny_model(config)[1]
    )
    for key, x in jax.tree_util.tree_leaves_with_path(params):
        norm, bias = "norm" in key[-1].key, "bias" in key[-1].key
        assert np.std(x) == pytest.approx(0 if norm or bias else 0.2, rel=0.2)
        assert np.mean(x) == pytest.approx(1 if norm else 0, abs=0.03)


def test_init_is_random_per_layer_and_born_sharded():
    config = tiny_config("qwen2", initializer_range=0.02, width=64)
    mesh = jax.make_mesh((2,), ("fsdp",), (jax.sharding.AxisType.Auto,))

    def place(names):
        spec = jax.P(*("fsdp" if n == "embed" else None for n in names))
        return jax.NamedSharding(mesh, spec)

    axes = models.logical_axes(config)
    shardings = jax.tree.map(place, axes, is_leaf=lambda x: isinstance(x, tuple))
    key = jax.random.key(1)
    _, params = models.init(config, key, dtype=jnp.bfloat16, shardings=shardings)
    assert type(params) is dict
    layers = params["layers"]
    assert layers["query"].sharding.spec == jax.P(None, "fsdp", None)
    assert params["embed"].dtype == jnp.bfloat16
    host = jax.tree.map(lambda x: np.asarray(x).astype(np.float32), params)
    layers = host["layers"]
    assert (layers["gate"][0] != layers["gate"][1]).any()
    for x in (host["embed"], layers["down"]):
        assert np.std(x) == pytest.approx(0.02, rel=0.05)
    assert (layers["attention_norm"] == 1).all()
    assert (layers["key_bias"] == 0).all()
