"""The sampler's programs for devices that need not exist, ready to be compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax import models
from rlvr_jax.sampling import caches, steps
from rlvr_jax.sampling.buckets import Buckets
from rlvr_jax.sampling.programs import Programs
from rlvr_jax.sampling.request import NUM_STOP_IDS


def lower(
    model: models.Decoder,
    params: Any,
    *,
    mesh: jax.sharding.Mesh,
    host_mesh: jax.sharding.Mesh | None = None,
    buckets: Buckets,
    num_samples: int,
    max_new_tokens: int,
) -> dict[str, jax.stages.Lowered]:
    """The programs that need most, at their largest bucket.

    Args:
        model: the decoder.
        params: shapes and places of the training's parameters.
        mesh: of the training; process 0's part of it samples.
        host_mesh: devices of one process alone that sample in its stead.
        buckets: shapes that the sampler may compile.
        num_samples: G.
        max_new_tokens: limit of a response.

    Returns:
        `unstack` (weights brought to the sampling mesh), `prefill` and `decode`.
    """
    whole, dtype = Programs(model, mesh=mesh), model.dtype
    programs = whole if host_mesh is None else Programs(model, mesh=host_mesh)
    size, length = buckets.contexts[-1], buckets.context_lengths[-1]
    room = buckets.new_lengths(max_new_tokens)[-1]
    weights = jax.eval_shape(lambda p: models.unstack(model, p, dtype), params)
    context = jax.eval_shape(
        lambda: caches.empty_context(model.config, size, length, dtype)
    )
    branches = jax.eval_shape(
        lambda: caches.empty_branches(model.config, size, num_samples, room, dtype)
    )
    per_context = jax.ShapeDtypeStruct((size,), jnp.int32)
    prefill = programs.prefill.lower(
        weights,
        context,
        jax.ShapeDtypeStruct((size, model.config.width), dtype),
        per_context,
        jax.ShapeDtypeStruct((size, buckets.chunk), jnp.int32),
        per_context,
    )
    numbers = jax.ShapeDtypeStruct((size, num_samples, room), jnp.float32)
    decode = programs.decode.lower(
        weights,
        context,
        per_context,
        branches,
        _progress(size, num_samples, room),
        numbers,
        _settings(size),
    )
    return {
        "unstack": whole.unstack.lower(params),
        "prefill": prefill,
        "decode": decode,
    }


def _progress(size: int, num_samples: int, room: int) -> steps.Progress:
    shape = (size, num_samples, room)
    return steps.Progress(
        step=jax.ShapeDtypeStruct((), jnp.int32),
        tokens=jax.ShapeDtypeStruct(shape, jnp.int32),
        log_probs=jax.ShapeDtypeStruct(shape, jnp.float32),
        entropies=jax.ShapeDtypeStruct(shape, jnp.float32),
        lengths=jax.ShapeDtypeStruct(shape[:2], jnp.int32),
        stopped=jax.ShapeDtypeStruct(shape[:2], bool),
    )


def _settings(size: int) -> steps.Settings:
    return steps.Settings(
        limits=jax.ShapeDtypeStruct((size,), jnp.int32),
        stop_ids=jax.ShapeDtypeStruct((NUM_STOP_IDS,), jnp.int32),
        temperature=jax.ShapeDtypeStruct((), jnp.float32),
        top_p=jax.ShapeDtypeStruct((), jnp.float32),
        top_k=jax.ShapeDtypeStruct((), jnp.int32),
    )
