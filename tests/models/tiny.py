"""Tiny configurations and rows that the model tests share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import models
from rlvr_jax.models import ModelConfig


def tiny_config(family: str = "llama", **changes) -> ModelConfig:
    """A two-layer model with grouped heads; Qwen3's heads are wider than D / H."""
    fields = {
        "family": family,
        "vocab_size": 61,
        "width": 32,
        "num_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 12 if family == "qwen3" else 8,
        "mlp_width": 48,
        "qk_norm": family in ("qwen3", "olmo2"),
        "attention_bias": family == "qwen2",
        "tied": True,
        # Large enough for attention and logits to depend visibly on everything.
        "initializer_range": 0.2,
    }
    return ModelConfig(**{**fields, **changes})


@functools.cache
def tiny_model(config: ModelConfig):
    """The module and random parameters of a configuration, made once, by NumPy.

    Scales are not one and biases not zero, unlike those of `models.init`.
    """
    model = models.Decoder(config)
    token = jax.ShapeDtypeStruct((1, 1), np.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), token, token, token)
    rng = np.random.default_rng(0)

    def draw(path, x):
        values = config.initializer_range * rng.normal(size=x.shape)
        if "norm" in path[-1].key:
            values = values + 1
        return jnp.asarray(values, jnp.float32)

    return model, jax.tree_util.tree_map_with_path(draw, shapes["params"])


def causal(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and last readers of rows that are one causal path each."""
    rows, length = tokens.shape
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), tokens.shape)
    return positions, np.full((rows, length), length - 1, np.int32)


def random_forest(rng: np.random.Generator, length: int) -> np.ndarray:
    """Last readers of a random depth-first forest over `length` tokens."""
    last = np.arange(length, dtype=np.int32)

    def fill(start: int, end: int) -> None:
        while start < end:
            subtree = int(rng.integers(start + 1, end + 1))
            own = int(rng.integers(start + 1, subtree + 1))
            last[start:own] = subtree - 1
            fill(own, subtree)
            start = subtree

    fill(0, length)
    return last


@functools.partial(jax.jit, static_argnums=0)
def hidden_states(model, params, tokens, positions, last_reader):
    """`Decoder.__call__`, compiled once per model and shape."""
    return model.apply({"params": params}, tokens, positions, last_reader)


def naive_attention(q, k, v, last_reader):
    """Dense-mask attention with repeated keys: the oracle."""
    groups, length = q.shape[2] // k.shape[2], q.shape[1]
    k, v = (jnp.repeat(x, groups, axis=2) for x in (k, v))
    scores = jnp.einsum("rihd,rjhd->rhij", q, k) / np.sqrt(q.shape[-1])
    i, j = np.arange(length)[:, None], np.arange(length)[None]
    mask = (j <= i) & (i <= last_reader[:, None, :])
    scores = jnp.where(mask[:, None], scores, -jnp.inf)
    return jnp.einsum("rhij,rjhd->rihd", jax.nn.softmax(scores, axis=-1), v)
