"""Hugging Face folders: safetensors read into our parameters, and written back."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save_file

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.decoder import Decoder
from rlvr_jax.models.parameters import Parameter, block_parameters, outer_parameters

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
STORED_TYPES = ("F32", "F16", "BF16")

# Rotary tables that old files carry; they follow from the configuration.
IGNORED_SUFFIX = "rotary_emb.inv_freq"

# Enough names to recognise the mistake, few enough for one line.
MOST_NAMES = 6


def load(
    path: str | os.PathLike[str], dtype: str = "float32", *, shardings: Any = None
) -> tuple[Decoder, dict[str, Any]]:
    """Read a Hugging Face folder: `config.json` and safetensors, one file or sharded.

    Files are memory-mapped and each device's shard is read on its own, whatever the
    type in the file (float32, float16, bfloat16, tensor by tensor).

    Args:
        path: the folder.
        dtype: "float32", "float16" or "bfloat16", the type of all parameters.
        shardings: a `jax.sharding.Sharding` per parameter, in the structure of the
            parameters; None puts everything on the first device.

    Returns:
        The module (computing in float32) and its parameters.

    Raises:
        ValueError: no such folder, no or unsupported config.json, no weights, a
            truncated file, or tensors that are missing, unused, of a wrong shape or
            type; each names what was found.
    """
    target = _dtype(dtype)
    directory = pathlib.Path(path)
    config = ModelConfig.from_directory(directory)
    layers, outer = block_parameters(config), outer_parameters(config)
    first = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with contextlib.ExitStack() as stack:
        tensors = _open_tensors(directory, stack)
        _check_tensors(tensors, config, directory)

        def place(entry: Parameter, sources: list[Any], stacked: bool, where: Any):
            shape = (len(sources), *entry.shape) if stacked else entry.shape

            def read(index: tuple[slice, ...]) -> np.ndarray:
                if not stacked:
                    return _read(sources[0], entry, index).astype(target)
                chosen = sources[index[0]]
                parts = [_read(s, entry, index[1:]).astype(target) for s in chosen]
                return np.stack(parts)

            return jax.make_array_from_callback(shape, where or first, read)

        params: dict[str, Any] = {"layers": {}}
        for name, entry in outer.items():
            where = shardings and shardings[name]
            params[name] = place(entry, [tensors[entry.source]], False, where)
        for name, entry in layers.items():
            where = shardings and shardings["layers"][name]
            sources = [
                tensors[entry.source.format(layer=i)] for i in range(config.num_layers)
            ]
            params["layers"][name] = place(entry, sources, True, where)
    return Decoder(config), params


def save(
    path: str | os.PathLike[str],
    model: Decoder,
    params: dict[str, Any],
    *,
    dtype: str = "float32",
) -> None:
    """Write `config.json` and `model.safetensors` as transformers names them.

    Token ids (start, end, padding) are not the model's to know: the file says null, and
    the tokenizer or `generation_config.json` beside it says them.

    Args:
        path: the folder; made when absent. Files of the same names are replaced.
        model: the decoder.
        params: its parameters, stacked.
        dtype: "float32", "float16" or "bfloat16", the type in the file.

    Raises:
        ValueError: an unknown dtype.
    """
    target = _dtype(dtype)
    config = model.config
    directory = pathlib.Path(path)
    directory.mkdir(parents=True, exist_ok=True)

    def to_file(x: Any, entry: Parameter) -> np.ndarray:
        x = np.asarray(x).astype(target)
        return np.ascontiguousarray(x.T if entry.transposed else x)

    tensors = {}
    for name, entry in outer_parameters(config).items():
        tensors[entry.source] = to_file(params[name], entry)
    for name, entry in block_parameters(config).items():
        stacked = np.asarray(params["layers"][name])
        for i, x in enumerate(stacked):
            tensors[entry.source.format(layer=i)] = to_file(x, entry)
    fields = {
        **config.to_hf(),
        "dtype": dtype,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    # A reader never sees half a file: each appears under its name when complete.
    partial = directory / f"{WEIGHTS_FILE}.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    # safetensors writes for the owner alone; weights are shared like any other file.
    partial.chmod(0o666 & ~_umask())
    os.replace(partial, directory / WEIGHTS_FILE)
    partial = directory / "config.json.partial"
    partial.write_text(json.dumps(fields, indent=2) + "\n")
    os.replace(partial, directory / "config.json")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _dtype(name: str) -> np.dtype:
    if name not in DTYPES:
        raise ValueError(f"dtype: wanted one of {sorted(DTYPES)}, got {name!r}")
    return DTYPES[name]


def _open_tensors(
    directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, Any]:
    """A lazy slice for each tensor in the folder, by its name."""
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


def _read(source: Any, entry: Parameter, index: tuple[slice, ...]) -> np.ndarray:
    """One part of a tensor, in our orientation."""
    return source[index[::-1]].T if entry.transposed else source[index]


def _check_tensors(
    tensors: dict[str, Any], config: ModelConfig, directory: pathlib.Path
) -> None:
    """Each tensor that the model wants is there, in shape, and no other one."""
    wanted = {p.source: p for p in outer_parameters(config).values()}
    for entry in block_parameters(config).values():
        for layer in range(config.num_layers):
            wanted[entry.source.format(layer=layer)] = entry
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
        shape = entry.shape[::-1] if entry.transposed else entry.shape
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


def _check_tied(tensors: dict[str, Any], directory: pathlib.Path) -> None:
    """Some files repeat the embedding as the head of a tied model; it must agree."""
    head, embed = tensors["lm_head.weight"], tensors["model.embed_tokens.weight"]
    if head.get_shape() != embed.get_shape() or not np.array_equal(head[:], embed[:]):
        raise ValueError(
            f"{directory}: lm_head.weight differs from the embedding, but config.json "
            "says tie_word_embeddings"
        )


def _names(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
