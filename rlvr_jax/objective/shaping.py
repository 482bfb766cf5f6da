"""Penalties on lengths, added to rewards before credit. NumPy, on the host."""

import numpy as np


def overlong_penalty(
    response_lengths: np.ndarray, *, max_length: int, buffer: int
) -> np.ndarray:
    """0 up to max_length - buffer, then linearly down to -1 at max_length.

    Args:
        response_lengths: int, any shape, in tokens.
        max_length: L_max, the limit of a response in tokens, >= 1.
        buffer: L_c, tokens before the limit that cost something, in [1, max_length].

    Returns:
        float32, same shape, in [-1, 0]; what padding gives is padding.

    Raises:
        ValueError: `max_length` or `buffer` outside its range.

    Source: DAPO (arXiv 2503.14476), soft overlong punishment. Whether a task is solved
    was decided before; the penalty only changes what credit compares.

    Example:
        >>> import numpy as np
        >>> lengths = np.array([5, 8, 9, 10, 12])
        >>> overlong_penalty(lengths, max_length=10, buffer=2).tolist()
        [0.0, 0.0, -0.5, -1.0, -1.0]
    """
    if max_length < 1:
        raise ValueError(f"max_length must be 1 or more tokens; got {max_length}")
    if not 1 <= buffer <= max_length:
        raise ValueError(
            f"buffer must be between 1 and max_length {max_length} tokens; got {buffer}"
        )
    over = np.asarray(response_lengths, np.float64) - (max_length - buffer)
    return 0.0 - np.clip(over / buffer, 0.0, 1.0).astype(np.float32)
