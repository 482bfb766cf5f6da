"""What a decoder looks like, read from a Hugging Face `config.json`."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Self

from rlvr_jax.models.rotary import Scaling, read_rotary, write_rotary


@dataclasses.dataclass(frozen=True)
class Family:
    """What a family fixes and its `config.json` does not say.

    Attributes:
        architecture: the class name in `architectures`.
        norms: Hugging Face names of a block's two norms, attention's and the MLP's.
        post_norm: they normalise what attention and MLP give, not what they take.
        qk_norm: queries and keys are normalised before the rotation.
        whole_qk_norm: all heads at once and not each on its own.
        qkv_bias: queries, keys and values carry a bias whatever the file says.
        has_head_dim: the file says `head_dim` even where it is width / heads.
        defaults: what transformers assumes for a field that the file leaves out.
    """

    architecture: str
    norms: tuple[str, str] = ("input_layernorm", "post_attention_layernorm")
    post_norm: bool = False
    qk_norm: bool = False
    whole_qk_norm: bool = False
    qkv_bias: bool = False
    has_head_dim: bool = False
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


FAMILIES: dict[str, Family] = {
    # SmolLM2 as well.
    "llama": Family(
        "LlamaForCausalLM",
        has_head_dim=True,
        defaults={"max_position_embeddings": 2048, "rms_norm_eps": 1e-6},
    ),
    # Qwen2.5 as well.
    "qwen2": Family(
        "Qwen2ForCausalLM",
        qkv_bias=True,
        defaults={
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "num_key_value_heads": 32,
        },
    ),
    "qwen3": Family(
        "Qwen3ForCausalLM",
        qk_norm=True,
        has_head_dim=True,
        defaults={
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "num_key_value_heads": 32,
            "head_dim": 128,
        },
    ),
    "olmo2": Family(
        "Olmo2ForCausalLM",
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        post_norm=True,
        qk_norm=True,
        whole_qk_norm=True,
        defaults={"max_position_embeddings": 2048, "rms_norm_eps": 1e-5},
    ),
}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The sizes and constants of one decoder; hashable, so it can be static in jit.

    Attributes:
        family: a key of `FAMILIES`.
        vocab_size: rows of the embedding, V.
        width: size of the residual stream, D.
        num_layers: number of blocks.
        num_heads: query heads, H.
        num_kv_heads: key and value heads; divides `num_heads`.
        head_dim: size of one head, even; need not be width / num_heads.
        mlp_width: inner size of the gated feed-forward layer.
        rope_theta: base of the rotary frequencies.
        norm_epsilon: added to the mean square in RMSNorm.
        tied: the output head is the transposed embedding.
        qk_norm: RMSNorm over the queries and keys, see `Family.whole_qk_norm`.
        attention_bias: biases on queries, keys and values (none on the output).
        max_position: longest context the model was made for, in tokens.
        initializer_range: standard deviation of random weights.
        rope_scaling: how the rotary frequencies are stretched; None: not at all.
    """

    family: str
    vocab_size: int
    width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_width: int
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-6
    tied: bool = False
    qk_norm: bool = False
    attention_bias: bool = False
    max_position: int = 2048
    initializer_range: float = 0.02
    rope_scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(
                f"family: wanted one of {sorted(FAMILIES)}, got {self.family!r}"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_kv_heads: wanted a divisor of num_heads={self.num_heads}, "
                f"got {self.num_kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(
                f"head_dim: wanted an even number (rotary halves), got {self.head_dim}"
            )

    @property
    def kind(self) -> Family:
        """What the family fixes."""
        return FAMILIES[self.family]

    @classmethod
    def from_directory(cls, path: str | pathlib.Path) -> Self:
        """Read `path/config.json`; ValueError names what is missing or unsupported."""
        directory = pathlib.Path(path)
        if not directory.is_dir():
            raise ValueError(
                f"model directory: wanted a Hugging Face folder, {directory} is none"
            )
        file = directory / "config.json"
        if not file.is_file():
            raise ValueError(f"model directory: {directory} has no config.json")
        try:
            fields = json.loads(file.read_text())
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{file}: not valid JSON ({error})") from error
        return cls.from_hf(fields)

    @classmethod
    def from_hf(cls, fields: Mapping[str, Any]) -> Self:
        """Build from the content of a Hugging Face `config.json`.

        Args:
            fields: the parsed file, as transformers 4 or 5 writes it.

        Returns:
            The configuration.

        Raises:
            ValueError: an architecture, rotary scaling, activation, bias or sliding
                window that is not supported, or a field that is missing.
        """
        name = _family_name(fields)
        family = FAMILIES[name]
        _refuse_unsupported(fields, family)
        values = {**family.defaults, **fields}
        needed = {
            "vocab_size": "vocab_size",
            "width": "hidden_size",
            "num_layers": "num_hidden_layers",
            "num_heads": "num_attention_heads",
            "mlp_width": "intermediate_size",
            "max_position": "max_position_embeddings",
            "norm_epsilon": "rms_norm_eps",
        }
        missing = sorted(key for key in needed.values() if values.get(key) is None)
        if missing:
            raise ValueError(f"config.json lacks {', '.join(missing)}")
        sizes = {ours: values[theirs] for ours, theirs in needed.items()}
        heads = sizes["num_heads"]
        rope_theta, rope_scaling = read_rotary(values)
        return cls(
            family=name,
            **sizes,
            num_kv_heads=values.get("num_key_value_heads") or heads,
            head_dim=values.get("head_dim") or sizes["width"] // heads,
            rope_theta=rope_theta,
            tied=bool(values.get("tie_word_embeddings", False)),
            qk_norm=family.qk_norm,
            attention_bias=family.qkv_bias,
            initializer_range=values.get("initializer_range", 0.02),
            rope_scaling=rope_scaling,
        )

    def to_hf(self) -> dict[str, Any]:
        """The `config.json` content that transformers reads back as this model."""
        family = self.kind
        fields = {
            "architectures": [family.architecture],
            "model_type": self.family,
            "vocab_size": self.vocab_size,
            "hidden_size": self.width,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "intermediate_size": self.mlp_width,
            "max_position_embeddings": self.max_position,
            "rms_norm_eps": self.norm_epsilon,
            "hidden_act": "silu",
            "tie_word_embeddings": self.tied,
            "initializer_range": self.initializer_range,
            **write_rotary(self.rope_theta, self.rope_scaling),
        }
        if family.has_head_dim or self.head_dim * self.num_heads != self.width:
            fields["head_dim"] = self.head_dim
        if not family.qkv_bias:
            fields["attention_bias"] = False
        return fields


def _family_name(fields: Mapping[str, Any]) -> str:
    architectures = fields.get("architectures") or []
    by_architecture = {f.architecture: name for name, f in FAMILIES.items()}
    for architecture in architectures:
        if architecture in by_architecture:
            return by_architecture[architecture]
    if not architectures and fields.get("model_type") in FAMILIES:
        return fields["model_type"]
    found = architectures or fields.get("model_type")
    raise ValueError(
        f"architectures: wanted one of {sorted(by_architecture)}, got {found!r}"
    )


def _refuse_unsupported(fields: Mapping[str, Any], family: Family) -> None:
    activation = fields.get("hidden_act", "silu")
    if activation != "silu":
        raise ValueError(f"hidden_act: wanted 'silu', got {activation!r}")
    for key in ("attention_bias", "mlp_bias"):
        # Qwen2 has its biases by architecture; elsewhere one would reach the output.
        if fields.get(key) and not family.qkv_bias:
            raise ValueError(f"{key}: wanted false for {family.architecture}, got true")
    sliding = "sliding_attention" in (fields.get("layer_types") or [])
    if fields.get("use_sliding_window") or sliding:
        raise ValueError(
            "use_sliding_window: sliding-window attention is not supported (a tree of "
            "attempts is packed for full attention)"
        )
