"""Shapes of the models that docs/compile_check.md shows, by name."""

from rlvr_jax.models import ModelConfig

_QWEN3 = {
    # width, layers, heads, key/value heads, MLP width, tied
    "qwen3-0.6b": (1024, 28, 16, 8, 3072, True),
    "qwen3-1.7b": (2048, 28, 16, 8, 6144, True),
    "qwen3-4b": (2560, 36, 32, 8, 9728, True),
    "qwen3-8b": (4096, 36, 32, 8, 12288, False),
    "qwen3-14b": (5120, 40, 40, 8, 17408, False),
    "qwen3-32b": (5120, 64, 64, 8, 25600, False),
}

_OLMO2_7B = ModelConfig(
    "olmo2",
    vocab_size=100352,
    width=4096,
    num_layers=32,
    num_heads=32,
    num_kv_heads=32,
    head_dim=128,
    mlp_width=11008,
    rope_theta=5e5,
    qk_norm=True,
    max_position=4096,
)


def named_config(name: str) -> ModelConfig:
    """The shapes of a model; raises ValueError, with the names there are."""
    if name == "olmo2-7b":
        return _OLMO2_7B
    if name not in _QWEN3:
        known = ", ".join([*_QWEN3, "olmo2-7b"])
        raise ValueError(f"model must be one of {known}; got {name!r}")
    width, layers, heads, kv_heads, mlp, tied = _QWEN3[name]
    return ModelConfig(
        "qwen3",
        vocab_size=151936,
        width=width,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        mlp_width=mlp,
        rope_theta=1e6,
        tied=tied,
        qk_norm=True,
        max_position=40960,
    )
