"""The jitted steps of the sampler: prefill a chunk, decode until everybody is done.

Axes: M contexts, G branches, A tokens of a chunk, C context tokens, T new tokens.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax import models, sharding
from rlvr_jax.sampling.caches import Cache, append
from rlvr_jax.sampling.choice import choose

Params = dict[str, Any]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "limits",
        "stop_ids",
        "temperature",
        "top_p",
        "top_k",
    ],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything about a call that is traced: changing it compiles nothing.

    Attributes:
        limits: int32 [M], new tokens allowed; 0 for a row of padding.
        stop_ids: int32 [NUM_STOP_IDS], padded with -1.
        temperature, top_p: float32 scalars.
        top_k: int32 scalar.
    """

    limits: jax.Array
    stop_ids: jax.Array
    temperature: jax.Array
    top_p: jax.Array
    top_k: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["step", "tokens", "log_probs", "entropies", "lengths", "stopped"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class Progress:
    """What the branches have sampled so far.

    Attributes:
        step: int32 scalar, position that is sampled next.
        tokens: int32 [M, G, T], log_probs and entropies: float32 [M, G, T]; 0 behind
            a branch's length.
        lengths: int32 [M, G].
        stopped: bool [M, G], a stop token was sampled.
    """

    step: jax.Array
    tokens: jax.Array
    log_probs: jax.Array
    entropies: jax.Array
    lengths: jax.Array
    stopped: jax.Array


def prefill(
    model: models.Decoder,
    params: Params,
    cache: Cache,
    hidden: jax.Array,
    lengths: jax.Array,
    tokens: jax.Array,
    counts: jax.Array,
) -> tuple[Cache, jax.Array, jax.Array]:
    """Reads a chunk of each context behind what its cache holds.

    Args:
        model: the decoder.
        params: its parameters, unstacked.
        cache: context cache with C slots.
        hidden: [M, D], the last real token's hidden state so far.
        lengths: int32 [M], tokens in the cache.
        tokens: int32 [M, A]; padding may hold any id.
        counts: int32 [M], real tokens of the chunk, 0 allowed.

    Returns:
        (cache, hidden, lengths) with the chunk read.
    """
    offsets = jnp.arange(tokens.shape[1])[None]
    positions = lengths[:, None] + offsets

    def attend(layer: int, q: jax.Array, k: jax.Array, v: jax.Array):
        keys, values = append(cache[layer], k, v, lengths, counts)
        slots = jnp.arange(keys.shape[-1])[None, None]
        mask = slots <= positions[..., None]
        num_contexts, num_tokens, heads, width = q.shape
        q = q.reshape(num_contexts, num_tokens, keys.shape[1], -1, width)
        # Tokens next to their axes: XLA's bfloat16 products on a CPU (jax 0.12) refuse
        # the layout in which tokens stand before heads.
        q = q.transpose(0, 2, 3, 1, 4)
        scores = _product("mkrad,mkdc->mkrac", q, keys) * width**-0.5
        scores = jnp.where(mask[:, None, None], scores, -jnp.inf)
        mass = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
        out = _product("mkrac,mkcd->mkrad", mass, values).astype(q.dtype)
        out = out.transpose(0, 3, 1, 2, 4)
        return out.reshape(num_contexts, num_tokens, heads, width), (keys, values)

    states, cache = models.forward_layers(model, params, tokens, positions, attend)
    last = jnp.maximum(counts - 1, 0)
    newest = jnp.take_along_axis(states, last[:, None, None], axis=1)[:, 0]
    hidden = jnp.where((counts > 0)[:, None], newest, hidden)
    return cache, hidden, lengths + counts


def begin(
    model: models.Decoder,
    params: Params,
    hidden: jax.Array,
    numbers: jax.Array,
    settings: Settings,
) -> Progress:
    """Samples the first token of G branches from each context's last hidden state.

    Args:
        model: the decoder.
        params: its parameters, unstacked.
        hidden: [M, D], of each context's last token.
        numbers: float32 [M, G, T], of `uniforms`.
        settings: of the call.

    Returns:
        Progress with room for T tokens.
    """
    shape = numbers.shape
    logits = models.head_logits(model, params, hidden)
    logits = jnp.broadcast_to(logits[:, None], (*shape[:2], logits.shape[-1]))
    progress = Progress(
        step=jnp.zeros((), jnp.int32),
        tokens=jnp.zeros(shape, jnp.int32),
        log_probs=jnp.zeros(shape, jnp.float32),
        entropies=jnp.zeros(shape, jnp.float32),
        lengths=jnp.zeros(shape[:2], jnp.int32),
        stopped=jnp.zeros(shape[:2], bool),
    )
    return _sample(logits, progress, numbers, settings)


def decode(
    model: models.Decoder,
    params: Params,
    context: Cache,
    context_lengths: jax.Array,
    branches: Cache,
    progress: Progress,
    numbers: jax.Array,
    settings: Settings,
) -> tuple[Cache, Progress, jax.Array]:
    """Samples until every branch is done or its cache of T new tokens is full.

    Args:
        model: the decoder.
        params: its parameters, unstacked.
        context: cache of the contexts, only read.
        context_lengths: int32 [M].
        branches: cache of T new tokens.
        progress: with room for T tokens, at least one of them sampled.
        numbers: float32 [M, G, T], of `uniforms`.
        settings: of the call.

    Returns:
        (cache of new tokens, progress, whether any branch still wants to go on).
    """
    capacity = progress.tokens.shape[-1]

    def going(state: tuple[Cache, Progress]) -> jax.Array:
        progress = state[1]
        active = _active(progress, settings)
        return active.any() & (progress.step < capacity)

    def step(state: tuple[Cache, Progress]) -> tuple[Cache, Progress]:
        branches, progress = state
        newest = progress.step - 1
        tokens = jax.lax.dynamic_index_in_dim(
            progress.tokens, newest, axis=2, keepdims=False
        )
        positions = jnp.broadcast_to(context_lengths[:, None] + newest, tokens.shape)
        attend = functools.partial(
            _attend_branches, context, context_lengths, branches, newest
        )
        hidden, branches = models.forward_layers(
            model, params, tokens, positions, attend
        )
        logits = models.head_logits(model, params, hidden)
        return branches, _sample(logits, progress, numbers, settings)

    branches, progress = jax.lax.while_loop(going, step, (branches, progress))
    return branches, progress, _active(progress, settings).any()


def extend_progress(progress: Progress, length: int) -> Progress:
    """The same progress with room for `length` tokens."""
    more = length - progress.tokens.shape[-1]
    wider = {
        name: jnp.pad(getattr(progress, name), [(0, 0), (0, 0), (0, more)])
        for name in ("tokens", "log_probs", "entropies")
    }
    return dataclasses.replace(progress, **wider)


def _attend_branches(
    context: Cache,
    context_lengths: jax.Array,
    branches: Cache,
    newest: jax.Array,
    layer: int,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """One query per branch against its context and its own tokens, in one softmax."""
    keys, values = context[layer]
    own_keys, own_values = branches[layer]
    own_keys = jax.lax.dynamic_update_index_in_dim(
        own_keys, k.astype(own_keys.dtype), newest, axis=4
    )
    own_values = jax.lax.dynamic_update_index_in_dim(
        own_values, v.astype(own_values.dtype), newest, axis=3
    )
    num_contexts, num_branches, heads, width = q.shape
    q = q.reshape(num_contexts, num_branches, keys.shape[1], -1, width) * width**-0.5
    shared = _product("mgkrd,mkdc->mkgrc", q, keys)
    real = jnp.arange(keys.shape[-1])[None] < context_lengths[:, None]
    shared = jnp.where(real[:, None, None, None], shared, -jnp.inf)
    own = _product("mgkrd,mgkdt->mkgrt", q, own_keys)
    past = jnp.arange(own_keys.shape[-1]) <= newest
    own = jnp.where(past.reshape((1,) * 4 + (-1,)), own, -jnp.inf)
    highest = jnp.maximum(
        shared.max(axis=-1, keepdims=True), own.max(axis=-1, keepdims=True)
    )
    shared, own = jnp.exp(shared - highest), jnp.exp(own - highest)
    total = shared.sum(axis=-1) + own.sum(axis=-1)
    dtype = values.dtype
    out = _product("mkgrc,mkcd->mkgrd", shared.astype(dtype), values)
    out += _product("mkgrt,mgktd->mkgrd", own.astype(dtype), own_values)
    out = (out / total[..., None]).astype(dtype).transpose(0, 2, 1, 3, 4)
    return out.reshape(num_contexts, num_branches, heads, width), (own_keys, own_values)


def _sample(
    logits: jax.Array, progress: Progress, numbers: jax.Array, settings: Settings
) -> Progress:
    """Writes one token at position `step` of each branch that is not done."""
    step = progress.step
    tokens, log_probs, entropies = choose(
        # Whole vocabularies, for some of the branches: a draw never leaves its device.
        sharding.constrain(logits, "rows", "branches", None),
        jax.lax.dynamic_index_in_dim(numbers, step, axis=2, keepdims=False),
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
    )
    active = _active(progress, settings)

    def write(array: jax.Array, values: jax.Array) -> jax.Array:
        values = jnp.where(active, values, 0)
        return jax.lax.dynamic_update_index_in_dim(array, values, step, axis=2)

    stop_ids = settings.stop_ids.reshape(1, 1, -1)
    stops = (tokens[..., None] == stop_ids).any(axis=-1)
    return Progress(
        step=step + 1,
        tokens=write(progress.tokens, tokens),
        log_probs=write(progress.log_probs, log_probs),
        entropies=write(progress.entropies, entropies),
        lengths=progress.lengths + active,
        stopped=progress.stopped | (active & stops),
    )


def _active(progress: Progress, settings: Settings) -> jax.Array:
    """bool [M, G]: neither stopped nor at its limit."""
    return ~progress.stopped & (progress.lengths < settings.limits[:, None])


def _product(spec: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """einsum with float32 sums."""
    return jnp.einsum(spec, left, right, preferred_element_type=jnp.float32)
