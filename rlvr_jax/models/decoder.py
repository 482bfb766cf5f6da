"""The decoder: blocks of rotary grouped-query attention and a gated MLP.

One module serves training (rows [R, L], layers under a scan) and decoding (any leading
axes, one layer after the other), so both compute the same function. Matrices are cast
to the compute type where they are used; norms and biases are read in float32.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from rlvr_jax.models.attention import attention
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.lora import LowRank, factor_axes
from rlvr_jax.models.parameters import Parameter, block_parameters, outer_parameters
from rlvr_jax.models.projection import project, project_adapted
from rlvr_jax.models.rotary import rotate
from rlvr_jax.sharding import constrain, gather_weight, over_rows

Attend = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any]]


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
    """x / sqrt(mean(x^2) + epsilon) * scale over the last axis, in float32.

    Args:
        x: [..., D], any float type.
        scale: [D].
        epsilon: added to the mean square.

    Returns:
        [..., D] in the type of `x`.
    """
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
    scale = jnp.broadcast_to(scale.astype(jnp.float32), x.shape)
    return (wide * jax.lax.rsqrt(mean_square + epsilon) * scale).astype(x.dtype)


class Block(nn.Module):
    """One layer: x + attention(norm(x)), then x + mlp(norm(x)).

    A family with post-norms has x + norm(attention(x)), then x + norm(mlp(x)).

    Attributes:
        config: the model.
        dtype: type of the activations and matrix products.
    """

    config: ModelConfig
    dtype: Any = jnp.float32

    def setup(self) -> None:
        table = block_parameters(self.config)
        self.weights = {
            name: self.param(name, _start(self.config, entry), entry.shape)
            for name, entry in table.items()
        }

    def __call__(
        self, x: jax.Array, positions: jax.Array, attend: Attend
    ) -> tuple[jax.Array, Any]:
        """Apply the layer.

        Args:
            x: residual stream [..., D].
            positions: int32 [...], depth of each token along its own path.
            attend: `(q [..., H, d], k [..., Hkv, d], v [..., Hkv, d]) ->
                (out [..., H, d], aux)`; q and k come rotated, the caller owns masks
                and caches.

        Returns:
            The new residual stream [..., D] and whatever `attend` gave as `aux`.
        """
        config = self.config
        inner = self._norm_in(x, "attention_norm")
        q = self._heads(inner, "query", config.num_heads)
        k = self._heads(inner, "key", config.num_kv_heads)
        v = self._heads(inner, "value", config.num_kv_heads)
        q = rotate(q, positions, config.rope_theta, config.rope_scaling)
        k = rotate(k, positions, config.rope_theta, config.rope_scaling)
        q = constrain(q, "rows", ..., "heads", None)
        k = constrain(k, "rows", ..., "kv_heads", None)
        v = constrain(v, "rows", ..., "kv_heads", None)
        out, aux = attend(q, k, v)
        out = self._matmul(out.reshape(*x.shape[:-1], -1), "output")
        x = x + self._norm_out(constrain(out, "rows", ...), "attention_norm")
        x = constrain(x, "rows", ...)
        inner = self._norm_in(x, "mlp_norm")
        gated = nn.silu(self._matmul(inner, "gate")) * self._matmul(inner, "up")
        out = self._matmul(constrain(gated, "rows", ..., "mlp"), "down")
        x = x + self._norm_out(constrain(out, "rows", ...), "mlp_norm")
        return constrain(x, "rows", ...), aux

    def _norm_in(self, x: jax.Array, name: str) -> jax.Array:
        return x if self.config.kind.post_norm else self._norm(x, name)

    def _norm_out(self, x: jax.Array, name: str) -> jax.Array:
        return self._norm(x, name) if self.config.kind.post_norm else x

    def _norm(self, x: jax.Array, name: str) -> jax.Array:
        return rms_norm(x, self.weights[name], self.config.norm_epsilon)

    def _matmul(self, x: jax.Array, name: str) -> jax.Array:
        stored, axes = self.weights[name], block_parameters(self.config)[name].axes
        gather = functools.partial(gather_weight, num_kv_heads=self.config.num_kv_heads)
        weight = gather(stored.astype(self.dtype), axes)
        if not isinstance(stored, LowRank):
            return project(x, weight)
        factors = zip((stored.a, stored.b), factor_axes(axes), strict=True)
        a, b = (gather(factor, names) for factor, names in factors)
        weight = jax.lax.stop_gradient(weight)
        return project_adapted(x, weight, a, b, stored.scale)

    def _heads(self, x: jax.Array, name: str, heads: int) -> jax.Array:
        """Queries, keys or values [..., heads, d], not yet rotated."""
        out = self._matmul(x, name)
        if self.config.attention_bias:
            bias = self.weights[f"{name}_bias"].astype(self.dtype)
            out = out + jnp.broadcast_to(bias, out.shape)
        norm = f"{name}_norm" if self.config.qk_norm and name != "value" else None
        if norm and self.config.kind.whole_qk_norm:
            out = self._norm(out, norm)
        out = out.reshape(*x.shape[:-1], heads, self.config.head_dim)
        if norm and not self.config.kind.whole_qk_norm:
            out = self._norm(out, norm)
        return out


class Decoder(nn.Module):
    """The whole model up to the final norm; the head is in `head.py`.

    Parameters are `{"embed": [V, D], "layers": {name: [num_layers, ...]}, "norm": [D],
    "head": [D, V]}` (no "head" when tied).

    Attributes:
        config: the model.
        dtype: type of the activations and matrix products.
        backend: attention backend, see `attention`.
        remat: recompute each layer in the backward pass and keep its input only.
        unroll: layers per step of the loop over layers.
    """

    config: ModelConfig
    dtype: Any = jnp.float32
    backend: str = "xla"
    remat: bool = True
    unroll: int = 1

    def setup(self) -> None:
        for name, entry in outer_parameters(self.config).items():
            setattr(
                self, name, self.param(name, _start(self.config, entry), entry.shape)
            )
        self.layers = Block(self.config, self.dtype)

    def __call__(
        self, tokens: jax.Array, positions: jax.Array, last_reader: jax.Array
    ) -> jax.Array:
        """Hidden states of packed rows, after the final norm.

        Args:
            tokens: int32 [R, L] ids; padding may hold any valid id.
            positions: int32 [R, L], depth along the path (padding: 0).
            last_reader: int32 [R, L], last index of the row that may read the token
                (padding: its own index).

        Returns:
            [R, L, D] in the compute type.
        """

        def layer(block, x, positions, last_reader):
            def attend(q, k, v):
                return attention(q, k, v, last_reader, backend=self.backend), None

            return block(x, positions, attend)

        if self.remat:
            layer = nn.remat(layer, prevent_cse=False)
        stack = nn.scan(
            layer,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(nn.broadcast, nn.broadcast),
            length=self.config.num_layers,
            unroll=self.unroll,
        )
        embed = gather_outer(self.config, "embed", self.embed)
        look_up = functools.partial(embed_tokens, dtype=self.dtype)
        x = over_rows(look_up, embed, tokens)
        x, _ = stack(self.layers, x, positions, last_reader)
        return rms_norm(x, self.norm, self.config.norm_epsilon)


def gather_outer(config: ModelConfig, name: str, weight: jax.Array) -> jax.Array:
    """`embed` or `head` as it is used on a mesh, see `sharding.gather_weight`."""
    axes = outer_parameters(config)[name].axes
    return gather_weight(weight, axes, num_kv_heads=config.num_kv_heads)


def embed_tokens(embed: jax.Array, tokens: jax.Array, dtype: Any) -> jax.Array:
    """Rows of the embedding [V, D] for ids [...]: [..., D] in `dtype`."""
    # Ids go to all parts of the vocabulary, no part of it to the ids.
    tokens = constrain(tokens, "rows", ...)
    x = jnp.take(embed, tokens, axis=0, mode="clip").astype(dtype)
    return constrain(x, "rows", ...)


def init(
    config: ModelConfig,
    key: jax.Array,
    *,
    dtype: Any = jnp.float32,
    shardings: Any = None,
) -> tuple[Decoder, dict[str, Any]]:
    """A decoder with random weights: normal matrices, unit scales, zero biases.

    Args:
        config: the model; `initializer_range` is the standard deviation.
        key: consumed.
        dtype: type of the parameters.
        shardings: a `jax.sharding.Sharding` per parameter, in the structure of the
            parameters: they are born there; None leaves the place to jit.

    Returns:
        The module (computing in float32) and its parameters.
    """
    model = Decoder(config)

    def start(key: jax.Array) -> dict[str, Any]:
        # Under jit the forward pass of this one token is dead code.
        token = jnp.zeros((1, 1), jnp.int32)
        params = model.init(key, token, token, token)["params"]
        return jax.tree.map(lambda x: x.astype(dtype), params)

    return model, jax.jit(start, out_shardings=shardings)(key)


def _start(config: ModelConfig, entry: Parameter) -> Callable[..., jax.Array]:
    return {
        "normal": nn.initializers.normal(config.initializer_range),
        "ones": nn.initializers.ones,
        "zeros": nn.initializers.zeros,
    }[entry.start]
