"""Safetensors files: opened without being read, checked, and written one by one."""

import contextlib
import json
import pathlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.parameters import Parameter, block_parameters, outer_parameters
from rlvr_jax.models.placement import PIECE_BYTES, pieces

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# All files of weights that one folder may have had.
PATTERNS = (WEIGHTS_FILE, INDEX_FILE, "model-*-of-*.safetensors")

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
# Eight-bit floats mean something only with the scales that lie beside them.
STORED_TYPES = ("F64", "F32", "F16", "BF16")
WRITTEN_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}

# Converted and written at a time.
WRITTEN_BYTES = 2**18

# Rotary tables that old files carry; they follow from the configuration.
IGNORED_SUFFIX = "rotary_emb.inv_freq"

# Enough names to recognise the mistake, few enough for one line.
MOST_NAMES = 6


def dtype_of(name: str) -> np.dtype:
    """The type called so in arguments; ValueError lists the names."""
    if name not in DTYPES:
        raise ValueError(f"dtype: wanted one of {sorted(DTYPES)}, got {name!r}")
    return DTYPES[name]


def open_tensors(
    directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, Any]:
    """A lazy slice for each tensor in the folder, by its name.

    Args:
        directory: the folder.
        stack: closes the files.

    Returns:
        Name -> safetensors slice.

    Raises:
        ValueError: no weights, a missing file or a truncated one.
    """
    index = directory / INDEX_FILE
    if (directory / WEIGHTS_FILE).is_file():
        files = [WEIGHTS_FILE]
    elif index.is_file():
        try:
            files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError) as error:
            raise ValueError(f"{index}: not a safetensors index ({error!r})") from error
    else:
        raise ValueError(
            f"model directory: {directory} has neither {WEIGHTS_FILE} nor {INDEX_FILE}"
        )
    tensors: dict[str, Any] = {}
    for name in files:
        file = directory / name
        if not file.is_file():
            raise ValueError(f"{INDEX_FILE} names {name}, which {directory} lacks")
        try:
            opened = stack.enter_context(safetensors.safe_open(file, framework="numpy"))
        except safetensors.SafetensorError as error:
            raise ValueError(f"{file}: truncated or corrupt ({error})") from error
        names = opened.keys()
        tensors.update((key, opened.get_slice(key)) for key in names)
    return tensors


def check_tensors(
    tensors: Mapping[str, Any], config: ModelConfig, directory: pathlib.Path
) -> None:
    """Each tensor that the model wants is there, in shape, and no other one.

    Args:
        tensors: from `open_tensors`.
        config: the model.
        directory: named in errors.

    Raises:
        ValueError: names of what is missing, unused, misshapen or of a wrong type.
    """
    wanted = stored_parameters(config)
    missing = sorted(wanted.keys() - tensors.keys())
    if missing:
        raise ValueError(f"{directory}: missing tensors: {_names(missing)}")
    unused = {
        name
        for name in tensors.keys() - wanted.keys()
        if not name.endswith(IGNORED_SUFFIX)
    }
    if config.tied and "lm_head.weight" in unused:
        unused.remove("lm_head.weight")
        _check_tied(tensors, directory)
    if unused:
        raise ValueError(f"{directory}: unused tensors: {_names(sorted(unused))}")
    for name, entry in wanted.items():
        shape = stored_shape(entry)
        found = tuple(tensors[name].get_shape())
        if found != shape:
            raise ValueError(
                f"{directory}: {name}: wanted shape {shape} (config.json), got {found}"
            )
        stored = tensors[name].get_dtype()
        if stored not in STORED_TYPES:
            raise ValueError(
                f"{directory}: {name}: wanted one of {STORED_TYPES}, got {stored}"
            )


def stored_parameters(config: ModelConfig) -> dict[str, Parameter]:
    """Our table entry for each tensor of a model's files, by its name there."""
    wanted = {p.source: p for p in outer_parameters(config).values()}
    for layer in range(config.num_layers):
        for entry in block_parameters(config).values():
            wanted[entry.source.format(layer=layer)] = entry
    return wanted


def stored_shape(entry: Parameter) -> tuple[int, ...]:
    """The shape of a parameter in the file."""
    return entry.shape[::-1] if entry.transposed else entry.shape


def write_tensors(
    file: pathlib.Path,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: str,
    read: Callable[[str], np.ndarray],
) -> None:
    """Write a safetensors file, holding one tensor at a time.

    Args:
        file: its path; replaced when there.
        shapes: shape of each tensor by its name, in the order of the file.
        dtype: a key of `DTYPES`.
        read: gives a tensor by its name, in any float type.
    """
    target = DTYPES[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + int(np.prod(shape)) * target.itemsize
        header[name] = {
            "dtype": WRITTEN_TYPES[dtype],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    # The data begins at a multiple of eight bytes.
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            values = read(name)
            # Blocks that a cache holds: columns are turned into rows on the way.
            rows = max(1, WRITTEN_BYTES // (values[:1].size * target.itemsize))
            for start in range(0, len(values), rows):
                block = np.array(values[start : start + rows], target, order="C")
                # Little-endian machines only, as everywhere that JAX runs.
                stream.write(block.reshape(-1).view(np.uint8).data)


def _check_tied(tensors: Mapping[str, Any], directory: pathlib.Path) -> None:
    """Some files repeat the embedding as the head of a tied model; it must agree."""
    head, embed = tensors["lm_head.weight"], tensors["model.embed_tokens.weight"]
    shape = head.get_shape()
    equal = shape == embed.get_shape()
    whole = tuple((0, size) for size in shape)
    for piece in pieces(whole, 8, PIECE_BYTES) if equal else ():
        index = tuple(slice(*bounds) for bounds in piece)
        equal = equal and np.array_equal(head[index], embed[index])
    if not equal:
        raise ValueError(
            f"{directory}: lm_head.weight differs from the embedding, but config.json "
            "says tie_word_embeddings"
        )


def _names(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
