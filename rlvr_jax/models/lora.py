"""LoRA: a frozen model whose matrices W are used as W + alpha / rank * A B.

Only A and B are trained. A matrix with its adapter is one `LowRank`, which stands where
the matrix stood: the decoder casts a weight where it uses it, and there the two become
one matrix, in float32 and a layer at a time. The sampler's copy is made by the same
cast, so trainer and sampler compute with the same weights. The backward pass has
products of rank r and no gradient of W, see `projection.project_adapted`.

The other way forward, x W + (x A) B, merges nothing. But it is another function than
the sampler's: in bfloat16 a change of W that merging rounds away would be trained on
and never sampled.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.parameters import block_parameters

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Lora:
    """Which matrices have adapters, and how large these are.

    Attributes:
        rank: columns of A and rows of B, >= 1.
        targets: names of a block's matrices: query, key, value, output, gate, up, down.
        alpha: the product A B counts `alpha / rank` times.
    """

    rank: int
    targets: tuple[str, ...]
    alpha: float

    @property
    def scale(self) -> float:
        """What the product A B is multiplied by."""
        return self.alpha / self.rank


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["base", "a", "b"],
    meta_fields=["scale"],
)
@dataclasses.dataclass(frozen=True)
class LowRank:
    """A matrix base + scale * a b that is computed where it is used.

    Attributes:
        base: [..., D, F]. It is the first leaf: Flax compares its shape with that of
            the parameter it stands for.
        a: float32 [..., D, r].
        b: float32 [..., r, F].
        scale: of the product.
    """

    base: jax.Array
    a: jax.Array
    b: jax.Array
    scale: float

    def __getitem__(self, index: Any) -> "LowRank":
        """The same of one layer, of matrices stacked over layers."""
        return LowRank(self.base[index], self.a[index], self.b[index], self.scale)

    def astype(self, dtype: Any) -> jax.Array:
        """The matrix [..., D, F]: computed in float32, then cast."""
        # Accelerators would else multiply float32 in a shorter type.
        product = jnp.matmul(self.a, self.b, precision=jax.lax.Precision.HIGHEST)
        return (self.base.astype(jnp.float32) + self.scale * product).astype(dtype)


def init_adapters(
    config: ModelConfig, lora: Lora, key: jax.Array, *, shardings: Any = None
) -> Params:
    """Adapters that change nothing yet: normal A, zero B.

    The variance of A is 1 / (3 D), as of PEFT's uniform default, so that learning rates
    carry over.

    Args:
        config: the model.
        lora: its adapters.
        key: consumed.
        shardings: a sharding per array; None leaves the place to jit.

    Returns:
        `{"layers": {target: {"a": [num_layers, D, r], "b": [num_layers, r, F]}}}`,
        float32.
    """
    table = block_parameters(config)

    def start(key: jax.Array) -> Params:
        layers = {}
        keys = jax.random.split(key, len(lora.targets))
        for name, own in zip(lora.targets, keys, strict=True):
            rows, columns = table[name].shape
            a = jax.random.normal(own, (config.num_layers, rows, lora.rank))
            b = jnp.zeros((config.num_layers, lora.rank, columns))
            layers[name] = {"a": a / math.sqrt(3 * rows), "b": b}
        return {"layers": layers}

    return jax.jit(start, out_shardings=shardings)(key)


def adapter_axes(config: ModelConfig, lora: Lora) -> Params:
    """Names of the adapters' axes, as `logical_axes` has them of the model's; `rank`
    is the inner one."""
    table = block_parameters(config)
    layers = {}
    for name in lora.targets:
        a, b = factor_axes(table[name].axes)
        layers[name] = {"a": ("layers", *a), "b": ("layers", *b)}
    return {"layers": layers}


def factor_axes(axes: tuple[str, ...]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Names of the axes of A and B, for a matrix with `axes`."""
    rows, columns = axes
    return (rows, "rank"), ("rank", columns)


def adapt(base: Params, adapters: Params, lora: Lora) -> Params:
    """Parameters of the model with a `LowRank` for each target; computes nothing.

    Args:
        base: of the model, as `Decoder` holds them.
        adapters: from `init_adapters`.
        lora: of the adapters.
    """
    layers = {
        name: LowRank(base["layers"][name], pair["a"], pair["b"], lora.scale)
        for name, pair in adapters["layers"].items()
    }
    return {**base, "layers": {**base["layers"], **layers}}


def merge(params: Params) -> Params:
    """Parameters with plain float32 matrices for those that `adapt` put there."""
    return jax.tree.map(
        lambda x: x.astype(jnp.float32) if isinstance(x, LowRank) else x,
        params,
        is_leaf=lambda x: isinstance(x, LowRank),
    )
