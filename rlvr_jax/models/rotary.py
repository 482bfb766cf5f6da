"""Rotary position embedding and the ways to stretch it to longer contexts."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

DEFAULT_THETA = 10000.0


class Scaling(Protocol):
    """What changes the frequencies of a rotary embedding."""

    @property
    def amplitude(self) -> float:
        """Factor on the rotated queries and keys."""

    def stretch(self, frequencies: np.ndarray, theta: float) -> np.ndarray:
        """New frequencies [d / 2] from those of base `theta`, float32."""


@dataclasses.dataclass(frozen=True)
class LinearScaling:
    """Positions divided by a factor.

    Attributes:
        factor: at least 1.
    """

    factor: float

    @property
    def amplitude(self) -> float:
        return 1.0

    def stretch(self, frequencies: np.ndarray, theta: float) -> np.ndarray:
        return frequencies / np.float32(self.factor)


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    """Long waves divided by a factor, short ones kept, a ramp between (Llama 3.1).

    A pair of dimensions turns original_max_position_embeddings / wavelength times over
    the original context: below `low_freq_factor` turns it is divided by `factor`, above
    `high_freq_factor` kept, and between them interpolated linearly in the turns.

    Attributes:
        factor: at least 1.
        low_freq_factor: turns, less than `high_freq_factor`.
        high_freq_factor: turns.
        original_max_position_embeddings: context before the stretch, in tokens.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    @property
    def amplitude(self) -> float:
        return 1.0

    def stretch(self, frequencies: np.ndarray, theta: float) -> np.ndarray:
        turns = self.original_max_position_embeddings * frequencies / (2 * np.pi)
        span = self.high_freq_factor - self.low_freq_factor
        kept = np.clip((turns - self.low_freq_factor) / span, 0, 1).astype(np.float32)
        return kept * frequencies + (1 - kept) * frequencies / np.float32(self.factor)


@dataclasses.dataclass(frozen=True)
class YarnScaling:
    """YaRN (arXiv 2309.00071): a ramp over the dimensions, and warmer attention.

    As transformers 5 does it: the ramp is linear in the index of the dimension, and
    `factor` counts even where max_position_embeddings / original says otherwise.

    Attributes:
        factor: at least 1.
        original_max_position_embeddings: context before the stretch, in tokens.
        attention_factor: amplitude; None: 0.1 log(factor) + 1, or the ratio of it at
            `mscale` to it at `mscale_all_dim`.
        beta_fast: turns over the original context from which a pair is kept.
        beta_slow: turns under which a pair is divided by `factor`.
        mscale, mscale_all_dim: weights of the logarithm; both or none count.
        truncate: the ends of the ramp are whole dimensions.
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    @property
    def amplitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._warmth(self.mscale) / self._warmth(self.mscale_all_dim)
        return self._warmth(1.0)

    def stretch(self, frequencies: np.ndarray, theta: float) -> np.ndarray:
        size = 2 * len(frequencies)
        low, high = (
            self._dimension(turns, size, theta)
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        # An empty ramp is a step.
        width = high - low or 0.001
        divided = np.clip((np.arange(size // 2) - low) / width, 0, 1)
        divided = divided.astype(np.float32)
        return frequencies * (1 - divided + divided / np.float32(self.factor))

    def _warmth(self, weight: float) -> float:
        return 1.0 if self.factor <= 1 else 0.1 * weight * math.log(self.factor) + 1

    def _dimension(self, turns: float, size: int, theta: float) -> float:
        """Index of the pair that turns so often over the original context."""
        ratio = self.original_max_position_embeddings / (2 * math.pi * turns)
        return size * math.log(ratio) / (2 * math.log(theta))


# By the `rope_type` of config.json; the fields are named as there.
SCALINGS: dict[str, type] = {
    "linear": LinearScaling,
    "llama3": Llama3Scaling,
    "yarn": YarnScaling,
}
# Read apart from the fields of a scaling, or without effect.
OTHER_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read_rotary(fields: Mapping[str, Any]) -> tuple[float, Scaling | None]:
    """Base of the frequencies and their scaling, from a parsed `config.json`.

    Args:
        fields: with `rope_parameters` (transformers 5), or `rope_theta` and
            `rope_scaling` (older); of two scalings transformers takes the older name.

    Returns:
        (theta, scaling); None for plain frequencies.

    Raises:
        ValueError: another scaling, one per type of layer, or a key of it that is
            missing or unknown; a rotation of a part of the head.
    """
    old, new = fields.get("rope_scaling"), fields.get("rope_parameters")
    name = "rope_scaling" if old else "rope_parameters"
    rope = old or new or {}
    if any(isinstance(value, Mapping) for value in rope.values()):
        raise ValueError(
            f"{name}: wanted one rotary embedding for all layers, got one for each of "
            f"{sorted(rope)}"
        )
    for part in (fields, rope):
        partial = part.get("partial_rotary_factor")
        if partial not in (None, 1, 1.0):
            raise ValueError(f"partial_rotary_factor: wanted 1, got {partial!r}")
    bases = (part.get("rope_theta") for part in (rope, fields, new or {}))
    theta = next((float(base) for base in bases if base is not None), DEFAULT_THETA)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        _refuse_unknown(name, kind, rope.keys())
        return theta, None
    if kind not in SCALINGS:
        raise ValueError(
            f"{name}: wanted rope_type 'default' or one of {sorted(SCALINGS)}, got "
            f"{kind!r}"
        )
    return theta, _read_scaling(name, kind, rope, fields)


def write_rotary(theta: float, scaling: Scaling | None) -> dict[str, Any]:
    """What `read_rotary` reads, under the names of both generations.

    Args:
        theta: base of the frequencies.
        scaling: None for plain frequencies.

    Returns:
        Fields of `config.json`.
    """
    if scaling is None:
        values = {"rope_type": "default"}
    else:
        kinds = {cls: kind for kind, cls in SCALINGS.items()}
        values = {"rope_type": kinds[type(scaling)], **dataclasses.asdict(scaling)}
        values = {key: value for key, value in values.items() if value is not None}
    written = {"rope_parameters": {**values, "rope_theta": theta}, "rope_theta": theta}
    return written if scaling is None else {**written, "rope_scaling": values}


def frequencies(size: int, theta: float, scaling: Scaling | None = None) -> np.ndarray:
    """Radians per position of each pair of dimensions.

    Args:
        size: of a head, d, even.
        theta: base: pair i turns by theta^(-2i/d) before the scaling.
        scaling: None for plain frequencies.

    Returns:
        float32 [d / 2].
    """
    powers = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    plain = 1 / np.power(np.float32(theta), powers)
    return plain if scaling is None else scaling.stretch(plain, theta)


def rotate(
    x: jax.Array, positions: jax.Array, theta: float, scaling: Scaling | None = None
) -> jax.Array:
    """Rotary position embedding, halves convention (as Hugging Face stores weights).

    Pair (x[i], x[i + d/2]) turns by positions * frequencies[i] and is multiplied by the
    amplitude of the scaling.

    Args:
        x: [..., H, d], d even.
        positions: int32 [...], 0-based.
        theta: base of the frequencies.
        scaling: None for plain frequencies.

    Returns:
        [..., H, d] in the type of `x`; angles and products are float32.
    """
    half = x.shape[-1] // 2
    turns = frequencies(x.shape[-1], theta, scaling)
    angles = positions.astype(jnp.float32)[..., None] * turns.reshape(
        (1,) * positions.ndim + (-1,)
    )
    cos, sin = jnp.cos(angles)[..., None, :], jnp.sin(angles)[..., None, :]
    if scaling is not None and scaling.amplitude != 1:
        cos, sin = cos * scaling.amplitude, sin * scaling.amplitude
    wide = x.astype(jnp.float32)
    first, second = wide[..., :half], wide[..., half:]
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _read_scaling(
    name: str, kind: str, rope: Mapping[str, Any], fields: Mapping[str, Any]
) -> Scaling:
    cls = SCALINGS[kind]
    known = {field.name: field for field in dataclasses.fields(cls)}
    values = {key: value for key, value in rope.items() if value is not None}
    original = "original_max_position_embeddings"
    if original in known:
        # transformers prefers one beside the dict, and falls back on the whole context.
        values[original] = (
            fields.get(original)
            or values.get(original)
            or fields["max_position_embeddings"]
        )
    if kind == "yarn" and "factor" not in values:
        values["factor"] = fields["max_position_embeddings"] / values[original]
    missing = [
        key
        for key, field in known.items()
        if field.default is dataclasses.MISSING and key not in values
    ]
    if missing:
        raise ValueError(f"{name}: {kind!r} lacks {', '.join(missing)}")
    _refuse_unknown(name, kind, values.keys() - known.keys())
    if values["factor"] < 1:
        raise ValueError(f"{name}: factor: wanted at least 1, got {values['factor']}")
    return cls(**{key: values[key] for key in known if key in values})


def _refuse_unknown(name: str, kind: str, keys: Any) -> None:
    unknown = sorted(set(keys) - OTHER_KEYS)
    if unknown:
        raise ValueError(f"{name}: unknown for {kind!r}: {', '.join(unknown)}")
