"""Compiles, before a run, every program that sampling can ever need."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from rlvr_jax.sampling import caches, steps
from rlvr_jax.sampling.request import Request
from rlvr_jax.sampling.sampler import Sampler


def warm_up(
    sampler: Sampler,
    params: dict[str, Any],
    *,
    num_samples: Sequence[int],
    max_new_tokens: int,
    turns: int,
) -> Iterator[str]:
    """Compiles one declared program per item; afterwards sampling compiles nothing.

    Args:
        sampler: its buckets declare the shapes.
        params: plain parameters.
        num_samples: every G that will be asked for.
        max_new_tokens: the largest limit.
        turns: with 1, nothing is ever continued.

    Yields:
        The name of the program that was compiled; as many as are declared.
    """
    yield "unstack"
    dummies = _Dummies(sampler, params, max_new_tokens)
    programs, buckets, rooms = sampler.programs, sampler.buckets, dummies.rooms
    for size in buckets.contexts:
        for length in buckets.context_lengths:
            programs.empty_context(size, length)
            yield f"empty_context {size} {length}"
            dummies.prefill(size, length)
            yield f"prefill {size} {length}"
    for size in buckets.contexts:
        for count in sorted(set(num_samples)):
            for room in rooms:
                dummies.numbers(size, count, room)
                yield f"uniforms {size} {count} {room}"
                if room == rooms[0]:
                    programs.empty_branches(size, count, room)
                    yield f"empty_branches {size} {count} {room}"
                dummies.branches(size, count, room)
                yield f"{'begin' if room == rooms[0] else 'grow'} {size} {count} {room}"
                for length in buckets.context_lengths:
                    dummies.decode(size, count, room, length)
                    yield f"decode {size} {count} {length} {room}"
                    yield from _joins(dummies, (size, count, length, room), turns)


def _joins(
    dummies: "_Dummies", shape: tuple[int, int, int, int], turns: int
) -> Iterator[str]:
    """The programs that continue a wave of `shape` with a wave of any shape."""
    if turns == 1:
        return
    buckets = dummies.sampler.buckets
    for next_size in buckets.contexts:
        for next_length in buckets.context_lengths:
            if next_length >= shape[2]:
                dummies.join(*shape, next_size, next_length)
                yield f"join {shape} {next_size} {next_length}"


class _Dummies:
    """Arguments in which every branch is done at once, so that nothing is sampled."""

    def __init__(
        self, sampler: Sampler, params: dict[str, Any], max_new_tokens: int
    ) -> None:
        self.sampler = sampler
        self.rooms = sampler.buckets.new_lengths(max_new_tokens)
        self._programs = sampler.programs
        self._params = sampler.programs.unstack(params)
        self._key = jax.random.key(0)

    def _hidden(self, size: int) -> np.ndarray:
        return np.zeros((size, self.sampler.model.config.width), self._dtype)

    @property
    def _dtype(self) -> Any:
        return self.sampler.model.dtype

    def _settings(self, size: int) -> tuple[np.ndarray, steps.Settings]:
        nothing = Request(
            texts=[],
            context_ids=[],
            num_samples=1,
            max_new_tokens=1,
            stop_ids=(),
            key=self._key,
        )
        return nothing.padded(range(0), size)

    def prefill(self, size: int, length: int) -> None:
        none = np.zeros(size, np.int32)
        chunk = np.zeros((size, self.sampler.buckets.chunk), np.int32)
        cache = self._programs.empty_context(size, length)
        self._programs.prefill(
            self._params, cache, self._hidden(size), none, chunk, none
        )

    def numbers(self, size: int, count: int, room: int) -> jax.Array:
        context_ids, _ = self._settings(size)
        return self._programs.uniforms(self._key, context_ids, count, room)

    def branches(
        self, size: int, count: int, room: int
    ) -> tuple[caches.Cache, steps.Progress]:
        first = self.rooms[0]
        _, settings = self._settings(size)
        branches = self._programs.empty_branches(size, count, first)
        progress = self._programs.begin(
            self._params,
            self._hidden(size),
            self.numbers(size, count, first),
            settings,
        )
        for larger in self.rooms[1 : self.rooms.index(room) + 1]:
            branches, progress = self._programs.grow(branches, progress, larger)
        return branches, progress

    def decode(self, size: int, count: int, room: int, length: int) -> None:
        _, settings = self._settings(size)
        self._programs.decode(
            self._params,
            self._programs.empty_context(size, length),
            np.zeros(size, np.int32),
            *self.branches(size, count, room),
            self.numbers(size, count, room),
            settings,
        )

    def join(
        self,
        size: int,
        count: int,
        length: int,
        room: int,
        next_size: int,
        next_length: int,
    ) -> None:
        none = np.zeros(next_size, np.int32)
        self._programs.join(
            self._programs.empty_context(size, length),
            self.branches(size, count, room)[0],
            none,
            none,
            none,
            next_length,
        )
