"""Estimates from repeated attempts: pass@k, and means with intervals."""

import math
from collections.abc import Sequence

import numpy as np


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the chance that k of n samples hold a correct one.

    Args:
        num_samples: n >= k, samples of one task.
        num_correct: c in [0, n].
        k: >= 1.

    Returns:
        The unbiased estimate, in [0, 1].

    Raises:
        ValueError: k is above n, or c is outside [0, n].

    Example:
        >>> round(pass_at_k(5, 2, 2), 6)
        0.7
    """
    if not 1 <= k <= num_samples:
        raise ValueError(f"k must be in [1, num_samples = {num_samples}]; got {k}")
    if not 0 <= num_correct <= num_samples:
        raise ValueError(
            f"num_correct must be in [0, num_samples = {num_samples}];"
            f" got {num_correct}"
        )
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def mean_interval(values: Sequence[float]) -> dict[str, float]:
    """Mean of independent values with its 95 % interval (normal approximation).

    Args:
        values: one per task, at least one.

    Returns:
        `mean`, `low`, `high`.

    Example:
        >>> mean_interval([0.5, 0.5])
        {'mean': 0.5, 'low': 0.5, 'high': 0.5}
    """
    values = np.asarray(values, np.float64)
    mean = float(values.mean())
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    half = 1.96 * spread / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half}
