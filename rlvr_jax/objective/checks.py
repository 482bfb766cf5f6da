"""Argument checks of the objective.

Shapes, dtypes and settings are known even under jit; values are checked eagerly alone.
"""

from collections.abc import Collection
from typing import Any

import jax
import numpy as np


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)}; got {value!r}")


def check_at_least(name: str, value: float, lowest: float) -> None:
    """Raises ValueError unless `value` is a number >= `lowest`."""
    if not value >= lowest:
        raise ValueError(f"{name} must be {lowest:g} or more; got {value}")


def check_shape(name: str, values: Any, like: str, shape: tuple[int, ...]) -> None:
    """Raises ValueError unless `values` has the shape of the argument `like`."""
    if values.shape != shape:
        raise ValueError(
            f"{name} must have the shape of {like} {shape}; got {values.shape}"
        )


def check_mask(name: str, mask: Any) -> None:
    """Raises ValueError unless `mask` is bool."""
    if mask.dtype != bool:
        raise ValueError(f"{name} must be bool, True = counts; got dtype {mask.dtype}")


def check_integers(name: str, values: Any) -> None:
    """Raises ValueError unless `values` holds integers."""
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} must hold integers; got dtype {values.dtype}")


def check_ids(name: str, ids: Any, mask: Any) -> None:
    """Raises ValueError unless concrete ids [R, K] are in [0, K) under the mask."""
    if isinstance(ids, jax.core.Tracer) or isinstance(mask, jax.core.Tracer):
        return
    present, limit = np.asarray(ids)[np.asarray(mask)], mask.shape[1]
    wrong = present[(present < 0) | (present >= limit)]
    if wrong.size:
        raise ValueError(
            f"{name} must be in [0, {limit}) where mask is True; got {wrong[0]}"
        )


def check_bounds(clip_low: float, clip_high: float, dual_clip: float | None) -> None:
    """Raises ValueError unless the bounds of a ratio leave 1 inside."""
    if not 0.0 <= clip_low <= 1.0:
        raise ValueError(f"clip_low must be in [0, 1]; got {clip_low}")
    check_at_least("clip_high", clip_high, 0.0)
    if dual_clip is not None and not dual_clip > 1.0:
        raise ValueError(f"dual_clip must be None or above 1; got {dual_clip}")
