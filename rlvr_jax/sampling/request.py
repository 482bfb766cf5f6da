"""What a caller asked of the sampler: checked, and padded for a wave."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from rlvr_jax.sampling.steps import Settings

NUM_STOP_IDS = 8  # stop ids are padded to this many, so that their number is traced


@dataclasses.dataclass(frozen=True)
class Request:
    """One call of the sampler: M token sequences to read and how to go on from them.

    Attributes: see `Sampler.generate`; `texts` are the contexts, or what `extend`
    appends to the contexts it has.
    """

    texts: Sequence[np.ndarray]
    context_ids: Sequence[int]
    num_samples: int
    max_new_tokens: int | Sequence[int]
    stop_ids: Sequence[int]
    key: jax.Array
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        count = len(self.texts)
        if any(len(text) == 0 for text in self.texts):
            raise ValueError("contexts must hold at least one token each; one is empty")
        if len(self.context_ids) != count:
            raise ValueError(
                f"context_ids must have one entry per context, {count};"
                f" got {len(self.context_ids)}"
            )
        if self.num_samples < 1:
            raise ValueError(f"num_samples must be >= 1; got {self.num_samples}")
        if count and self.limits.min() < 1:
            raise ValueError(f"max_new_tokens must be >= 1; got {self.limits.min()}")
        if len(self.stop_ids) > NUM_STOP_IDS:
            raise ValueError(
                f"stop_ids must be at most {NUM_STOP_IDS}; got {len(self.stop_ids)}"
            )
        if self.temperature < 0:
            raise ValueError(f"temperature must be >= 0; got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1]; got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0, 0 for all; got {self.top_k}")

    @property
    def limits(self) -> np.ndarray:
        """New tokens allowed, int32 [M]."""
        limits = np.asarray(self.max_new_tokens, np.int32)
        return np.broadcast_to(limits, (len(self.texts),))

    @property
    def longest(self) -> int:
        """The largest limit T."""
        return int(self.limits.max(initial=1))

    def padded(self, rows: range, size: int) -> tuple[np.ndarray, Settings]:
        """Context ids uint32 [size] and settings of a wave; padding wants no tokens."""

        def pad(values: Sequence[int] | np.ndarray, dtype: type) -> np.ndarray:
            array = np.zeros(size, dtype)
            array[: len(rows)] = np.asarray(values)[rows.start : rows.stop]
            return array

        stop_ids = np.full(NUM_STOP_IDS, -1, np.int32)
        stop_ids[: len(self.stop_ids)] = self.stop_ids
        settings = Settings(
            limits=pad(self.limits, np.int32),
            stop_ids=stop_ids,
            temperature=np.float32(self.temperature),
            top_p=np.float32(self.top_p),
            top_k=np.int32(self.top_k),
        )
        return pad(self.context_ids, np.uint32), settings
