"""Adapters: a base that they do not change at the start, gradients, and files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from rlvr_jax import models, sharding
from rlvr_jax.config.checks import TARGETS
from rlvr_jax.models.lora import LowRank
from rlvr_jax.models.parameters import block_parameters

CONFIG = models.ModelConfig(
    family="qwen2",
    vocab_size=20,
    width=8,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=4,
    mlp_width=12,
    tied=True,
    attention_bias=True,
    initializer_range=0.5,
)
LORA = models.Lora(rank=2, targets=TARGETS, alpha=6.0)
TOKENS = np.arange(12, dtype=np.int32).reshape(2, 6)


@pytest.fixture(scope="module")
def base():
    return models.init(CONFIG, jax.random.key(0))


@pytest.fixture(scope="module")
def adapters():
    """Adapters that change something."""
    start = models.init_adapters(CONFIG, LORA, jax.random.key(1))
    keys = iter(jax.random.split(jax.random.key(2), 2 * len(TARGETS)))
    return jax.tree.map(
        lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), start
    )


def test_the_targets_are_the_matrices_of_a_block():
    matrices = {k for k, p in block_parameters(CONFIG).items() if len(p.shape) == 2}
    assert set(TARGETS) == matrices


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_zero_b_is_the_base_bit_for_bit(base, dtype):
    model, params = base[0].clone(dtype=dtype), base[1]
    start = models.init_adapters(CONFIG, LORA, jax.random.key(1))
    for pair in start["layers"].values():
        assert not pair["b"].any()
        assert pair["a"].all()
    adapted = models.adapt(params, start, LORA)
    np.testing.assert_array_equal(
        models.logits(model, adapted, TOKENS), models.logits(model, params, TOKENS)
    )


def test_the_start_has_the_variance_of_peft_s():
    wide = models.ModelConfig(
        family="llama",
        vocab_size=8,
        width=256,
        num_layers=2,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        mlp_width=1024,
    )
    lora = models.Lora(rank=16, targets=("up", "down"), alpha=1.0)
    layers = models.init_adapters(wide, lora, jax.random.key(0))["layers"]
    for name, rows in (("up", 256), ("down", 1024)):
        assert 3 * rows * np.var(layers[name]["a"]) == pytest.approx(1, abs=0.05)


def test_merged_is_base_plus_scaled_product(base, adapters):
    _, params = base
    merged = models.merge(models.adapt(params, adapters, LORA))
    assert jax.tree.structure(merged) == jax.tree.structure(params)
    for name in TARGETS:
        pair, start = adapters["layers"][name], params["layers"][name]
        for layer in range(2):
            a, b = (np.asarray(pair[k][layer], np.float64) for k in "ab")
            np.testing.assert_allclose(
                merged["layers"][name][layer],
                start[layer] + 6.0 / 2 * a @ b,
                rtol=0,
                atol=1e-6,
            )
    assert merged["embed"] is params["embed"]


def test_logits_and_gradients_are_those_of_the_merged_matrices(base, adapters):
    model, params = base

    def loss(whole):
        scores = models.logits(model, whole, TOKENS)
        return jax.nn.log_softmax(scores)[..., 3].mean()

    def through_matrices(adapters):
        # The matrix of a target as a sum that autodiff sees.
        layers = dict(params["layers"])
        for name, pair in adapters["layers"].items():
            product = jnp.einsum("lir,lro->lio", pair["a"], pair["b"])
            layers[name] = layers[name] + 3.0 * product
        return loss({**params, "layers": layers})

    def adapted(adapters):
        return loss(models.adapt(params, adapters, LORA))

    (value, grads), (wanted, expected) = (
        jax.jit(jax.value_and_grad(f))(adapters) for f in (adapted, through_matrices)
    )
    np.testing.assert_allclose(value, wanted, rtol=1e-6)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=0, atol=1e-5),
        grads,
        expected,
    )
    # A direction in all of them, against the slope that is measured.
    keys = iter(jax.random.split(jax.random.key(3), 2 * len(TARGETS)))
    along = jax.tree.map(lambda x: jax.random.normal(next(keys), x.shape), adapters)
    size = 1e-3

    def at(distance):
        return adapted(jax.tree.map(lambda x, d: x + distance * d, adapters, along))

    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, d: (g * d).sum(), grads, along)))
    np.testing.assert_allclose((at(size) - at(-size)) / (2 * size), slope, rtol=1e-2)
    assert abs(slope) > 1e-2


def test_the_sampler_s_copy_is_merged_once_in_float32(base, adapters):
    model, params = base
    cast = {**params, "layers": {**params["layers"]}}
    for name in TARGETS:
        cast["layers"][name] = params["layers"][name].astype("bfloat16")
    layered = models.unstack(model, models.adapt(cast, adapters, LORA), jnp.bfloat16)
    for layer, weights in enumerate(layered["layers"]):
        assert not any(isinstance(x, LowRank) for x in weights.values())
        for name in TARGETS:
            start = np.asarray(cast["layers"][name][layer], np.float64)
            pair = adapters["layers"][name]
            a, b = (np.asarray(pair[k][layer], np.float64) for k in "ab")
            exact = (start + 3.0 * a @ b).astype(weights[name].dtype)
            # Rounded once; a product or sum in bfloat16 would move a tenth of them.
            assert (np.asarray(weights[name]) == exact).mean() > 0.97


def test_axes_match_the_adapters_and_spread_them(adapters):
    axes = models.adapter_axes(CONFIG, LORA)
    ranks = jax.tree.map(len, axes, is_leaf=lambda x: isinstance(x, tuple))
    assert ranks == jax.tree.map(jnp.ndim, adapters)
    mesh = sharding.make_mesh((1, 2, 2))
    places = sharding.parameter_shardings(
        mesh, axes, sharding.TRAINING_RULES, num_kv_heads=2
    )
    spread = models.init_adapters(CONFIG, LORA, jax.random.key(1), shardings=places)
    alone = models.init_adapters(CONFIG, LORA, jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, spread, alone)
    a, b = (spread["layers"]["up"][part] for part in "ab")
    assert a.sharding.shard_shape(a.shape) == (2, 4, 2)
    assert b.sharding.shard_shape(b.shape) == (2, 2, 6)


def test_save_writes_merged_matrices(base, adapters, tmp_path):
    model, params = base
    adapted = models.adapt(params, adapters, LORA)
    models.save(tmp_path, model, adapted)
    jax.tree.map(
        np.testing.assert_array_equal, models.load(tmp_path)[1], models.merge(adapted)
    )


def test_adapter_files_hold_each_layer_in_peft_s_layout(adapters, tmp_path):
    models.save_adapters(tmp_path, CONFIG, adapters, LORA, base="model")
    tensors = safetensors.numpy.load_file(tmp_path / "adapter_model.safetensors")
    assert len(tensors) == 2 * 2 * len(TARGETS)
    name = "base_model.model.model.layers.1.mlp.gate_proj.lora_A.weight"
    np.testing.assert_array_equal(tensors[name], adapters["layers"]["gate"]["a"][1].T)
    name = "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"
    np.testing.assert_array_equal(tensors[name], adapters["layers"]["key"]["b"][0].T)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["target_modules"] == [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    ]
    with pytest.raises(ValueError, match="dtype: wanted one of"):
        models.save_adapters(
            tmp_path, CONFIG, adapters, LORA, base="model", dtype="int8"
        )


def test_norms_and_biases_may_be_loaded_in_another_type(base, tmp_path):
    models.save(tmp_path, *base)
    _, params = models.load(tmp_path, dtype="bfloat16", vectors="float32")
    layers = params["layers"]
    assert layers["query"].dtype == params["embed"].dtype == "bfloat16"
    for name in ("query_bias", "mlp_norm"):
        np.testing.assert_array_equal(layers[name], base[1]["layers"][name])
    assert params["norm"].dtype == "float32"
