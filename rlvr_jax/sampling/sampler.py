"""Batched multi-turn sampling with a cache that siblings share and turns reuse."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from rlvr_jax import models, sharding
from rlvr_jax.sampling import caches, steps
from rlvr_jax.sampling.buckets import Buckets
from rlvr_jax.sampling.programs import Programs
from rlvr_jax.sampling.request import Request

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Wave:
    """Device state of contexts that were decoded together; the next turn reads it."""

    contexts: range
    context_cache: caches.Cache
    context_lengths: np.ndarray
    branch_cache: caches.Cache


@dataclasses.dataclass(frozen=True)
class Samples:
    """Responses to M contexts, G each, on the host; padding holds 0.

    Attributes:
        tokens: int32 [M, G, T], T the largest limit; a sampled stop token is included.
        lengths: int32 [M, G], >= 1.
        log_probs: float32 [M, G, T], of the full softmax at the sampling temperature.
        entropies: float32 [M, G, T], of the same distribution, in nats.
        truncated: bool [M, G], the limit came before a stop token.
        waves: device caches, for `Sampler.extend`.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    log_probs: np.ndarray
    entropies: np.ndarray
    truncated: np.ndarray
    waves: tuple[Wave, ...] = dataclasses.field(repr=False)


class Sampler:
    """Compiled sampling of one model.

    A context is read once and its cache serves all its branches; the next turn's
    contexts are the branch's cache plus what is appended, so that no token but the
    appended ones is computed again. All shapes come from `buckets`; temperature,
    top-p, top-k, limits and stop ids are traced.

    Args:
        model: the decoder; its `dtype` is the type of computation and caches.
        buckets: allowed shapes; the default doubles every size.
        mesh: of the training: its weights are brought from there to this process's part
            of it, where contexts are spread. None is one device.

    Raises:
        ValueError: a bucket of contexts that cannot be spread evenly.
    """

    def __init__(
        self,
        model: models.Decoder,
        *,
        buckets: Buckets | None = None,
        mesh: jax.sharding.Mesh | None = None,
    ) -> None:
        self.model = model
        self.buckets = buckets or Buckets()
        groups = sharding.row_groups(sharding.sampling_mesh(mesh))
        sharding.check_multiple(
            "sampler.contexts",
            self.buckets.contexts,
            groups,
            "this process's devices / mesh.tensor",
        )
        self.programs = Programs(model, mesh=mesh)
        self._source: Any = None
        self._params: Any = None

    def generate(
        self,
        params: Params,
        contexts: Sequence[Sequence[int]],
        *,
        context_ids: Sequence[int],
        num_samples: int,
        max_new_tokens: int | Sequence[int],
        stop_ids: Sequence[int],
        key: jax.Array,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
    ) -> Samples:
        """Samples `num_samples` responses to each context.

        Args:
            params: plain parameters of the model.
            contexts: M sequences of token ids, each with at least one.
            context_ids: M integers >= 0; with `key` they alone fix the random numbers,
                whatever else is in the batch.
            num_samples: G.
            max_new_tokens: limit in tokens, one for all or one per context, >= 1.
            stop_ids: ids that end a response, at most 8.
            key: of the rollout, never consumed: use another one for the next rollout.
            temperature: >= 0; 0 takes the likeliest token.
            top_p: in (0, 1]; 1 for all.
            top_k: >= 0; 0 for all.

        Returns:
            `Samples` in the order of `contexts`.

        Raises:
            ValueError: an empty context, a limit below 1, a setting out of range, or a
                context longer than the largest bucket.
        """
        request = Request(
            texts=[np.asarray(context, np.int32) for context in contexts],
            context_ids=context_ids,
            num_samples=num_samples,
            max_new_tokens=max_new_tokens,
            stop_ids=stop_ids,
            key=key,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
        )
        params = self.prepare(params)
        parts = []
        for rows in self._waves(range(len(contexts))):
            size = self.buckets.num_contexts(len(rows))
            longest = max(len(request.texts[row]) for row in rows)
            cache = self.programs.empty_context(
                size, self.buckets.context_length(longest)
            )
            lengths = np.zeros(size, np.int32)
            parts.append(self._run(params, request, rows, cache, lengths))
        return _collect(parts, request)

    def extend(
        self,
        params: Params,
        samples: Samples,
        *,
        select: Sequence[tuple[int, int]],
        appendix: Sequence[Sequence[int]],
        **settings: Any,
    ) -> Samples:
        """The next turn: new contexts that continue chosen branches of `samples`.

        Args:
            params: the weights that sampled `samples`.
            samples: from `generate` or `extend`.
            select: M' pairs (m, g), ascending in m.
            appendix: M' sequences of ids that follow the branch's response.
            settings: `context_ids`, `num_samples`, `max_new_tokens`, `stop_ids`, `key`,
                `temperature`, `top_p` and `top_k` as in `generate`, for the new
                contexts.

        Returns:
            `Samples` in the order of `select`.

        Raises:
            ValueError: as in `generate`, or `select` is not ascending.
        """
        parents = np.array([m for m, _ in select], int)
        if (np.diff(parents) < 0).any():
            raise ValueError("select must be ascending in its first index")
        # The last sampled token was never read: it leads the appended ids.
        request = Request(
            texts=[
                np.asarray([samples.tokens[m, g, samples.lengths[m, g] - 1], *ids])
                for (m, g), ids in zip(select, appendix, strict=True)
            ],
            **settings,
        )
        params = self.prepare(params)
        parts = []
        for wave in samples.waves:
            bounds = (wave.contexts.start, wave.contexts.stop)
            mine = range(*np.searchsorted(parents, bounds).tolist())
            for rows in self._waves(mine):
                cache, lengths = self._continue(wave, samples, select, request, rows)
                parts.append(self._run(params, request, rows, cache, lengths))
        return _collect(parts, request)

    def release(self) -> None:
        """Drops the copy that was cast from the last parameters in use."""
        self._source = self._params = None

    def prepare(self, params: Params) -> Params:
        """Parameters cast and unstacked, once per rollout (per parameter object).

        With several processes this is the one collective of sampling: all of them call
        it, even those that then sample nothing.
        """
        if params is not self._source:
            self._source, self._params = params, self.programs.unstack(params)
        return self._params

    def _waves(self, rows: range) -> Iterator[range]:
        """At most as many neighbours at a time as the largest bucket holds."""
        size = self.buckets.contexts[-1]
        for start in range(rows.start, rows.stop, size):
            yield range(start, min(start + size, rows.stop))

    def _continue(
        self,
        wave: Wave,
        samples: Samples,
        select: Sequence[tuple[int, int]],
        request: Request,
        rows: range,
    ) -> tuple[caches.Cache, np.ndarray]:
        """Joined caches of the selected branches, and how many tokens they hold."""
        size = self.buckets.num_contexts(len(rows))
        parents, branches, old, new = np.zeros((4, size), np.int32)
        for index, row in enumerate(rows):
            m, g = select[row]
            parents[index], branches[index] = m - wave.contexts.start, g
            old[index] = wave.context_lengths[parents[index]]
            new[index] = samples.lengths[m, g] - 1
        lengths = old + new
        longest = max(
            int(lengths[index]) + len(request.texts[row])
            for index, row in enumerate(rows)
        )
        cache = self.programs.join(
            wave.context_cache,
            wave.branch_cache,
            parents,
            branches,
            old,
            self.buckets.context_length(longest),
        )
        return cache, lengths

    def _run(
        self,
        params: Params,
        request: Request,
        rows: range,
        cache: caches.Cache,
        lengths: np.ndarray,
    ) -> tuple[Wave, steps.Progress]:
        """Reads the texts of `rows` behind `cache` and samples their branches."""
        size, num_samples = len(lengths), request.num_samples
        hidden = np.zeros((size, self.model.config.width), self.model.dtype)
        chunk = self.buckets.chunk
        longest = max(len(request.texts[row]) for row in rows)
        for start in range(0, longest, chunk):
            tokens, counts = np.zeros((size, chunk), np.int32), np.zeros(size, np.int32)
            for index, row in enumerate(rows):
                part = request.texts[row][start : start + chunk]
                tokens[index, : len(part)], counts[index] = part, len(part)
            cache, hidden, lengths = self.programs.prefill(
                params, cache, hidden, lengths, tokens, counts
            )
        context_ids, settings = request.padded(rows, size)
        rooms = self.buckets.new_lengths(request.longest)
        for room in rooms:
            numbers = self.programs.uniforms(
                request.key, context_ids, num_samples, room
            )
            if room == rooms[0]:
                progress = self.programs.begin(params, hidden, numbers, settings)
                branches = self.programs.empty_branches(size, num_samples, room)
            else:
                branches, progress = self.programs.grow(branches, progress, room)
            branches, progress, going = self.programs.decode(
                params, cache, lengths, branches, progress, numbers, settings
            )
            if not going:
                break
        return Wave(rows, cache, np.asarray(lengths), branches), progress


def _collect(parts: Sequence[tuple[Wave, steps.Progress]], request: Request) -> Samples:
    """Host arrays in the order of the request, cut to its largest limit."""
    shape = (len(request.texts), request.num_samples)
    longest = request.longest
    tokens = np.zeros((*shape, longest), np.int32)
    log_probs, entropies = np.zeros((2, *shape, longest), np.float32)
    lengths, stopped = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for wave, progress in parts:
        rows, count = slice(wave.contexts.start, wave.contexts.stop), len(wave.contexts)
        room = min(longest, progress.tokens.shape[-1])
        for array, values in (
            (tokens, progress.tokens),
            (log_probs, progress.log_probs),
            (entropies, progress.entropies),
        ):
            array[rows, :, :room] = np.asarray(values)[:count, :, :room]
        lengths[rows] = np.asarray(progress.lengths)[:count]
        stopped[rows] = np.asarray(progress.stopped)[:count]
    return Samples(
        tokens=tokens,
        lengths=lengths,
        log_probs=log_probs,
        entropies=entropies,
        truncated=~stopped,
        waves=tuple(wave for wave, _ in parts),
    )
