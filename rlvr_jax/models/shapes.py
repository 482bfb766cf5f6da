"""Published models by name: their configuration, without their weights."""

import math

from rlvr_jax.models.config import FAMILIES, ModelConfig
from rlvr_jax.models.parameters import block_parameters, outer_parameters
from rlvr_jax.models.rotary import Llama3Scaling

# In the order of `SIZES`, from the models' own config.json.
SHAPES: dict[str, tuple] = {
    "smollm2-135m": (576, 30, 9, 3, 64, 1536, True),
    "llama3.2-1b": (2048, 16, 32, 8, 64, 8192, True),
    "llama3.2-3b": (3072, 28, 24, 8, 128, 8192, True),
    "llama3.1-8b": (4096, 32, 32, 8, 128, 14336, False),
    "llama3.1-70b": (8192, 80, 64, 8, 128, 28672, False),
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, True),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 128, 8960, True),
    "qwen2.5-3b": (2048, 36, 16, 2, 128, 11008, True),
    "qwen2.5-7b": (3584, 28, 28, 4, 128, 18944, False),
    "qwen2.5-14b": (5120, 48, 40, 8, 128, 13824, False),
    "qwen2.5-32b": (5120, 64, 40, 8, 128, 27648, False),
    "qwen3-0.6b": (1024, 28, 16, 8, 128, 3072, True),
    "qwen3-1.7b": (2048, 28, 16, 8, 128, 6144, True),
    "qwen3-4b": (2560, 36, 32, 8, 128, 9728, True),
    "qwen3-8b": (4096, 36, 32, 8, 128, 12288, False),
    "qwen3-14b": (5120, 40, 40, 8, 128, 17408, False),
    "qwen3-32b": (5120, 64, 64, 8, 128, 25600, False),
    "olmo2-1b": (2048, 16, 16, 16, 128, 8192, False),
    "olmo2-7b": (4096, 32, 32, 32, 128, 11008, False),
    "olmo2-13b": (5120, 40, 40, 40, 128, 13824, False),
    "olmo2-32b": (5120, 64, 40, 8, 128, 27648, False),
}
SIZES = (
    "width",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "mlp_width",
    "tied",
)
# What the models of a series share; the name up to the first "-".
SERIES: dict[str, dict] = {
    "smollm2": {
        "family": "llama",
        "vocab_size": 49152,
        "rope_theta": 100000.0,
        "norm_epsilon": 1e-5,
        "max_position": 8192,
    },
    "llama3.1": {
        "family": "llama",
        "vocab_size": 128256,
        "rope_theta": 500000.0,
        "norm_epsilon": 1e-5,
        "max_position": 131072,
        "rope_scaling": Llama3Scaling(8.0, 1.0, 4.0, 8192),
    },
    "llama3.2": {
        "family": "llama",
        "vocab_size": 128256,
        "rope_theta": 500000.0,
        "norm_epsilon": 1e-5,
        "max_position": 131072,
        "rope_scaling": Llama3Scaling(32.0, 1.0, 4.0, 8192),
    },
    "qwen2.5": {
        "family": "qwen2",
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
        "max_position": 32768,
    },
    "qwen3": {
        "family": "qwen3",
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
        "max_position": 40960,
    },
    "olmo2": {
        "family": "olmo2",
        "vocab_size": 100352,
        "rope_theta": 500000.0,
        "max_position": 4096,
    },
}
# Where one size of a series differs from the others.
EXCEPTIONS: dict[str, dict] = {
    # The base models' contexts; the instruction-tuned ones say 32768.
    "qwen2.5-7b": {"vocab_size": 152064, "max_position": 131072},
    "qwen2.5-14b": {"vocab_size": 152064, "max_position": 131072, "norm_epsilon": 1e-5},
    "qwen2.5-32b": {"vocab_size": 152064, "max_position": 131072, "norm_epsilon": 1e-5},
}


def named_config(name: str) -> ModelConfig:
    """The configuration of a published model, as its `config.json` has it.

    Args:
        name: a key of `SHAPES`, such as "qwen3-0.6b". Qwen2.5 and OLMo-2 are the base
            models; what instruction tuning leaves alone holds for both.

    Returns:
        The configuration.

    Raises:
        ValueError: another name; the error lists those there are.
    """
    if name not in SHAPES:
        raise ValueError(f"name: wanted one of {sorted(SHAPES)}, got {name!r}")
    series = SERIES[name.partition("-")[0]]
    family = FAMILIES[series["family"]]
    return ModelConfig(
        **dict(zip(SIZES, SHAPES[name], strict=True)),
        qk_norm=family.qk_norm,
        attention_bias=family.qkv_bias,
        **{**series, **EXCEPTIONS.get(name, {})},
    )


def parameter_count(config: ModelConfig) -> int:
    """How many numbers the parameters of a model are; a tied head counts once."""
    block = sum(math.prod(p.shape) for p in block_parameters(config).values())
    outer = sum(math.prod(p.shape) for p in outer_parameters(config).values())
    return outer + config.num_layers * block
