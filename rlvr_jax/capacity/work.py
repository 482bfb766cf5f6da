"""Floating-point operations and memory traffic of a step, from its shapes.

The compiler's own count has the body of a loop once, however often it runs.
"""

import dataclasses
import math

import jax.numpy as jnp

from rlvr_jax.models import ModelConfig, parameter_count
from rlvr_jax.models.attention import MAX_BLOCKS
from rlvr_jax.models.parameters import block_parameters


@dataclasses.dataclass(frozen=True)
class Work:
    """Least work of a program on all its devices together.

    Attributes:
        model_flops: products of matrices that the mathematics asks for; a causal
            triangle of attention, nothing computed twice.
        flops: those that are computed: whole blocks of attention, layers and head again
            in the backward pass.
        traffic: bytes to and from HBM of arrays that cannot stay on the chip.
    """

    model_flops: float
    flops: float
    traffic: float

    def times(self, runs: int) -> "Work":
        """The work of so many runs."""
        return Work(self.model_flops * runs, self.flops * runs, self.traffic * runs)

    def plus(self, other: "Work") -> "Work":
        """Both together."""
        return Work(
            self.model_flops + other.model_flops,
            self.flops + other.flops,
            self.traffic + other.traffic,
        )


def matrix_sizes(config: ModelConfig) -> tuple[int, int]:
    """(entries of the matrices of all layers, entries of the output head)."""
    layer = sum(
        math.prod(entry.shape)
        for entry in block_parameters(config).values()
        if len(entry.shape) == 2
    )
    return config.num_layers * layer, config.vocab_size * config.width


def training_work(
    config: ModelConfig,
    *,
    rows: int,
    row_length: int,
    target_length: int,
    remat: bool,
    block: int = 128,
    itemsize: int = 2,
    copies: int = 1,
    groups: int = 1,
    adapters: int = 0,
) -> Work:
    """One micro-batch: forward and backward pass, gradients added up.

    Args:
        config: the model.
        rows: R of the micro-batch, over all devices.
        row_length: L.
        target_length: K.
        remat: layers are computed again in the backward pass.
        block: least number of queries per block of attention.
        itemsize: of the compute type, bytes.
        copies: groups of devices that hold the float32 masters once (`mesh.data`).
        groups: groups of devices that bring all weights together (`mesh.data` x
            `mesh.fsdp`).
        adapters: entries of the adapters if they alone are trained.

    Returns:
        Work of all devices together.
    """
    layers, head = matrix_sizes(config)
    tokens, targets = rows * row_length, rows * target_length
    causal = rows * row_length * (row_length + 1) / 2
    blocks = rows * _block_pairs(row_length, block)
    # Multiply-adds of one of attention's products, per pair of query and key.
    pair = config.num_layers * config.num_heads * config.head_dim
    # Gradients of weights: of all matrices, or two products per factor of an adapter.
    own_layers, own_head = (2 * adapters, 0) if adapters else (layers, head)
    own = own_layers * tokens + own_head * targets
    model = 2 * (2 * (layers * tokens + head * targets) + own + 6 * pair * causal)
    # Attention: 2 products forward, 5 backward (its scores once more).
    passes = 3 if remat else 2
    attention = (2 if remat else 1) * 2 + 5
    computed = 2 * (
        passes * layers * tokens + 3 * head * targets + own + attention * pair * blocks
    )
    # Masters are read; gradients are read and written.
    masters = 3 * 4 * copies * (adapters or parameter_count(config))
    # Weights as they are used: written when gathered, read in each pass.
    used = itemsize * groups * (layers * 2 * passes + head * 4)
    # What each layer is computed again from: written, then read.
    kept = 2 * itemsize * tokens * config.width * config.num_layers
    return Work(model, computed, masters + used + kept)


def apply_work(size: int, *, copies: int) -> Work:
    """The optimizer: parameters, two moments and gradients read; three written.

    Args:
        size: how many numbers are trained.
        copies: groups of devices that hold them once.
    """
    return Work(0.0, 15.0 * size * copies, 7 * 4 * size * copies)


def prefill_work(
    config: ModelConfig,
    *,
    contexts: int,
    chunk: int,
    context_length: int,
    itemsize: int,
    groups: int,
) -> Work:
    """One chunk of each context; every query sees the whole cache.

    Args:
        config: the model.
        contexts: M.
        chunk: A, tokens of each.
        context_length: C, of the cache.
        itemsize: of weights and caches, bytes.
        groups: groups of devices that hold the weights once.
    """
    layers, _ = matrix_sizes(config)
    pair = config.num_layers * config.num_heads * config.head_dim
    tokens = contexts * chunk
    flops = 2 * (layers * tokens + 2 * pair * tokens * context_length)
    cache = contexts * context_length * _token_bytes(config, itemsize)
    return Work(flops, flops, itemsize * layers * groups + cache)


def decode_work(
    config: ModelConfig,
    *,
    contexts: int,
    branches: int,
    context_length: int,
    new_length: int,
    itemsize: int,
    groups: int,
) -> Work:
    """One token of every branch: all weights and both caches are read once.

    Args:
        config: the model.
        contexts: M.
        branches: G.
        context_length: C.
        new_length: T, of the cache of new tokens.
        itemsize: of weights and caches, bytes.
        groups: groups of devices that hold the weights once.
    """
    layers, head = matrix_sizes(config)
    pair = config.num_layers * config.num_heads * config.head_dim
    tokens, length = contexts * branches, context_length + new_length
    flops = 2 * ((layers + head) * tokens + 2 * pair * tokens * length)
    cached = contexts * (context_length + branches * new_length)
    traffic = itemsize * (layers + head) * groups
    return Work(flops, flops, traffic + cached * _token_bytes(config, itemsize))


def _token_bytes(config: ModelConfig, itemsize: int) -> int:
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * itemsize


def _block_pairs(length: int, block: int) -> int:
    """Pairs of query and key that blocks of queries compute, per head."""
    step = max(block, -(-length // MAX_BLOCKS))
    ends = [min(start + step, length) for start in range(0, length, step)]
    return sum(
        (end - start) * end for start, end in zip([0, *ends], ends, strict=False)
    )


def dtype_size(dtype: str) -> int:
    """Bytes of an entry."""
    return jnp.dtype(dtype).itemsize
