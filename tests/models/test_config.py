"""Reading `config.json`: both generations of transformers, and what is refused."""

import json
import math

import pytest

from rlvr_jax.models import ModelConfig
from rlvr_jax.models.rotary import LinearScaling, Llama3Scaling, YarnScaling

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
QWEN3 = {
    **LLAMA,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
}
OLMO2 = {**LLAMA, "architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2"}
QWEN2 = {
    **LLAMA,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "sliding_window": 4096,
    "use_sliding_window": False,
    "layer_types": ["full_attention"] * 30,
}


def test_llama():
    config = ModelConfig.from_hf({**LLAMA, "rope_theta": 100000})
    assert config == ModelConfig(
        family="llama",
        vocab_size=49152,
        width=576,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        mlp_width=1536,
        rope_theta=100000.0,
        norm_epsilon=1e-5,
        tied=True,
        max_position=8192,
    )
    hash(config)


def test_families_differ_as_their_papers_say():
    qwen3, qwen2 = ModelConfig.from_hf(QWEN3), ModelConfig.from_hf(QWEN2)
    assert (qwen3.head_dim, qwen3.qk_norm, qwen3.attention_bias) == (128, True, False)
    assert (qwen2.head_dim, qwen2.qk_norm, qwen2.attention_bias) == (64, False, True)
    olmo2 = ModelConfig.from_hf(OLMO2)
    assert (olmo2.head_dim, olmo2.qk_norm, olmo2.attention_bias) == (64, True, False)
    assert [c.kind.post_norm for c in (qwen2, qwen3, olmo2)] == [False, False, True]


@pytest.mark.parametrize(
    ("fields", "theta"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5),
        ({"rope_theta": 5e5}, 5e5),
        ({"rope_theta": 5e5, "rope_scaling": None}, 5e5),
        ({"rope_theta": 1.0, "rope_parameters": {"rope_theta": 5e5}}, 5e5),
        ({}, 1e4),
    ],
)
def test_rotary_base_of_both_generations(fields, theta):
    assert ModelConfig.from_hf({**LLAMA, **fields}).rope_theta == theta


def test_defaults_are_those_of_transformers():
    left_out = ("num_key_value_heads", "tie_word_embeddings", "rms_norm_eps")
    fields = {k: v for k, v in LLAMA.items() if k not in left_out}
    config = ModelConfig.from_hf(fields)
    assert config.num_kv_heads == 9
    assert not config.tied
    assert config.norm_epsilon == 1e-6
    # Qwen's classes state numbers where Llama's follow the other sizes.
    for fields in (QWEN2, QWEN3):
        fields = {**fields, "num_attention_heads": 64, "hidden_size": 4096}
        lacking = {k: v for k, v in fields.items() if k != "num_key_value_heads"}
        assert ModelConfig.from_hf(lacking).num_kv_heads == 32
    lacking = {k: v for k, v in QWEN3.items() if k != "head_dim"}
    assert ModelConfig.from_hf(lacking).head_dim == 128


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}
SCALINGS = [
    ({"rope_type": "linear", "factor": 2.0}, LinearScaling(2.0)),
    (LLAMA3, Llama3Scaling(8.0, 1.0, 4.0, 1024)),
    (YARN, YarnScaling(4.0, 2048)),
    ({**YARN, "truncate": False}, YarnScaling(4.0, 2048, truncate=False)),
    ({**YARN, "attention_factor": 1.1}, YarnScaling(4.0, 2048, 1.1)),
    # What is left out: the whole context, and the ratio of the two contexts.
    ({"type": "yarn", "factor": 4.0}, YarnScaling(4.0, 8192)),
    ({**YARN, "factor": None}, YarnScaling(4.0, 2048)),
]


@pytest.mark.parametrize(("rope", "scaling"), SCALINGS)
def test_scaled_rotary_embeddings_of_both_generations(rope, scaling):
    old = {"rope_theta": 5e5, "rope_scaling": rope}
    new = {"rope_parameters": {"rope_theta": 5e5, **rope}}
    # transformers lets the older name win, and so does an older reader.
    both = {**old, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    for fields in (old, new, both):
        config = ModelConfig.from_hf({**LLAMA, **fields})
        assert (config.rope_theta, config.rope_scaling) == (5e5, scaling)
        hash(config)


@pytest.mark.parametrize("family", [LLAMA, QWEN2, QWEN3, OLMO2])
@pytest.mark.parametrize("rope", [None, *(rope for rope, _ in SCALINGS)])
def test_to_hf_is_read_back_as_the_same(family, rope):
    config = ModelConfig.from_hf({**family, "rope_scaling": rope, "rope_theta": 5e5})
    fields = json.loads(json.dumps(config.to_hf()))
    assert ModelConfig.from_hf(fields) == config
    # Readers of one generation only see the same model.
    for name in ("rope_parameters", "rope_scaling"):
        one = {key: value for key, value in fields.items() if key != name}
        assert ModelConfig.from_hf(one) == config


def test_the_original_context_may_stand_beside_the_scaling():
    fields = {**LLAMA, "rope_scaling": YARN, "original_max_position_embeddings": 512}
    assert ModelConfig.from_hf(fields).rope_scaling == YarnScaling(4.0, 512)


def test_yarn_amplitude():
    assert YarnScaling(1.0, 2048).amplitude == 1
    assert YarnScaling(4.0, 2048).amplitude == pytest.approx(1 + 0.1 * math.log(4))
    both = YarnScaling(4.0, 2048, mscale=2.0, mscale_all_dim=1.0)
    ratio = (1 + 0.2 * math.log(4)) / (1 + 0.1 * math.log(4))
    assert both.amplitude == pytest.approx(ratio)
    # One of the two alone counts for nothing.
    assert YarnScaling(4.0, 2048, mscale=2.0).amplitude < 1.2


def test_a_head_size_in_the_file_counts_in_every_family():
    for fields in (QWEN2, OLMO2):
        config = ModelConfig.from_hf({**fields, "head_dim": 32})
        assert config.head_dim == 32
        assert ModelConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            r"architectures: wanted one of \['LlamaForCausalLM', 'Olmo2ForCausalLM', "
            r"'Qwen2ForCausalLM', 'Qwen3ForCausalLM'\], got \['GPT2LMHeadModel'\]",
        ),
        ({"architectures": None, "model_type": "gpt2"}, r"got 'gpt2'"),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            r"rope_scaling: wanted .*'linear', 'llama3', 'yarn'.*, got 'dynamic'",
        ),
        (
            {"rope_parameters": {"rope_type": "longrope", "rope_theta": 5e5}},
            r"rope_parameters: wanted .*, got 'longrope'",
        ),
        (
            {"rope_scaling": {"type": "llama3", "factor": 8.0}},
            r"rope_scaling: 'llama3' lacks low_freq_factor, high_freq_factor",
        ),
        ({"rope_scaling": {"type": "linear"}}, r"'linear' lacks factor"),
        (
            {"rope_scaling": {"type": "linear", "factor": 0.5}},
            r"rope_scaling: factor: wanted at least 1, got 0.5",
        ),
        (
            {"rope_scaling": {"type": "default", "mrope_section": [16, 24, 24]}},
            r"rope_scaling: unknown for 'default': mrope_section",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
            r"wanted one rotary embedding for all layers, got .*full_attention",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            r"partial_rotary_factor: wanted 1, got 0.5",
        ),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor: wanted 1, got 0.5"),
        ({"hidden_act": "gelu"}, r"hidden_act: wanted 'silu', got 'gelu'"),
        ({"attention_bias": True}, r"attention_bias: wanted false for Llama"),
        ({"mlp_bias": True}, r"mlp_bias: wanted false for Llama"),
        ({"use_sliding_window": True}, r"sliding-window attention is not supported"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, r"sliding-window"),
        ({"hidden_size": None, "vocab_size": None}, r"lacks hidden_size, vocab_size"),
        ({"num_key_value_heads": 2}, r"num_kv_heads: wanted a divisor of num_heads=9"),
        ({"head_dim": 63}, r"head_dim: wanted an even number .*, got 63"),
    ],
)
def test_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_hf({**LLAMA, **fields})


def test_unknown_family():
    with pytest.raises(ValueError, match=r"family: wanted one of .*'qwen3'.*, got 'x'"):
        ModelConfig("x", 8, 8, 1, 1, 1, 8, 8)


def test_broken_json(tmp_path):
    (tmp_path / "config.json").write_text('{"vocab_size": ')
    with pytest.raises(ValueError, match=r"config.json: not valid JSON"):
        ModelConfig.from_directory(tmp_path)
