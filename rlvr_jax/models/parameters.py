"""The table of parameters: our name, shape, axes, start and Hugging Face name."""

import dataclasses
from typing import Any, Literal

from rlvr_jax.models.config import ModelConfig


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One array of the model.

    Attributes:
        shape: its shape; for a block's parameter, of one layer.
        axes: a logical name per axis of `shape`.
        start: how random weights begin.
        source: its Hugging Face name; `{layer}` stands for the layer's number.
        transposed: the file holds [out, in], we hold [in, out].
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    start: Literal["normal", "ones", "zeros"]
    source: str
    transposed: bool = False


def block_parameters(config: ModelConfig) -> dict[str, Parameter]:
    """Parameters of one block; in the model they are stacked over layers on axis 0."""
    width, mlp = config.width, config.mlp_width
    heads = config.num_heads * config.head_dim
    kv_heads = config.num_kv_heads * config.head_dim
    attention_norm, mlp_norm = config.kind.norms

    def matrix(rows: int, columns: int, axes: tuple[str, str], name: str) -> Parameter:
        source = f"model.layers.{{layer}}.{name}.weight"
        return Parameter((rows, columns), axes, "normal", source, transposed=True)

    def scale(size: int, axis: str, name: str) -> Parameter:
        source = f"model.layers.{{layer}}.{name}.weight"
        return Parameter((size,), (axis,), "ones", source)

    def bias(size: int, axis: str, name: str) -> Parameter:
        source = f"model.layers.{{layer}}.{name}.bias"
        return Parameter((size,), (axis,), "zeros", source)

    table = {
        "attention_norm": scale(width, "norm", attention_norm),
        "query": matrix(width, heads, ("embed", "heads"), "self_attn.q_proj"),
        "key": matrix(width, kv_heads, ("embed", "kv_heads"), "self_attn.k_proj"),
        "value": matrix(width, kv_heads, ("embed", "kv_heads"), "self_attn.v_proj"),
        "output": matrix(heads, width, ("heads", "embed"), "self_attn.o_proj"),
        "mlp_norm": scale(width, "norm", mlp_norm),
        "gate": matrix(width, mlp, ("embed", "mlp"), "mlp.gate_proj"),
        "up": matrix(width, mlp, ("embed", "mlp"), "mlp.up_proj"),
        "down": matrix(mlp, width, ("mlp", "embed"), "mlp.down_proj"),
    }
    if config.qk_norm:
        sizes = ((config.head_dim, "head_dim"),) * 2
        if config.kind.whole_qk_norm:
            sizes = ((heads, "heads"), (kv_heads, "kv_heads"))
        table["query_norm"] = scale(*sizes[0], "self_attn.q_norm")
        table["key_norm"] = scale(*sizes[1], "self_attn.k_norm")
    if config.attention_bias:
        table["query_bias"] = bias(heads, "heads", "self_attn.q_proj")
        table["key_bias"] = bias(kv_heads, "kv_heads", "self_attn.k_proj")
        table["value_bias"] = bias(kv_heads, "kv_heads", "self_attn.v_proj")
    return table


def outer_parameters(config: ModelConfig) -> dict[str, Parameter]:
    """Parameters outside the blocks: `embed`, `norm` and, unless tied, `head`."""
    vocab, width = config.vocab_size, config.width
    table = {
        "embed": Parameter(
            (vocab, width), ("vocab", "embed"), "normal", "model.embed_tokens.weight"
        ),
        "norm": Parameter((width,), ("norm",), "ones", "model.norm.weight"),
    }
    if not config.tied:
        table["head"] = Parameter(
            (width, vocab), ("embed", "vocab"), "normal", "lm_head.weight", True
        )
    return table


def logical_axes(config: ModelConfig) -> dict[str, Any]:
    """A tuple of axis names for each array of the parameters, in the same structure.

    Args:
        config: the model.

    Returns:
        A dict shaped like the parameters; the leaves are tuples such as
        `("layers", "embed", "heads")`. Names: vocab, embed, heads, kv_heads, mlp,
        layers, head_dim, norm.
    """
    axes: dict[str, Any] = {k: p.axes for k, p in outer_parameters(config).items()}
    axes["layers"] = {
        k: ("layers", *p.axes) for k, p in block_parameters(config).items()
    }
    return axes
