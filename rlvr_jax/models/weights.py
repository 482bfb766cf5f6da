"""Hugging Face folders: safetensors read into our parameters, and written back."""

import contextlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.models import tensor_files
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.decoder import Decoder
from rlvr_jax.models.lora import LowRank
from rlvr_jax.models.parameters import Parameter, block_parameters, outer_parameters
from rlvr_jax.models.placement import Bounds, place

# What transformers 4 wrote into one file; readers cope with any number.
SHARD_BYTES = 5 * 10**9
# Rows of a file that are turned into columns at a time.
TRANSPOSED_ROWS = 64


def load(
    path: str | os.PathLike[str],
    dtype: str = "float32",
    *,
    vectors: str = "",
    shardings: Any = None,
) -> tuple[Decoder, dict[str, Any]]:
    """Read a Hugging Face folder: `config.json` and safetensors, one file or sharded.

    Files are memory-mapped, each device's part is read on its own, and the host holds
    a few pieces of `placement.PIECE_BYTES` at a time, whatever the model's size.

    Args:
        path: the folder. Tensors may be float64, float32, float16 or bfloat16, each on
            its own.
        dtype: "float32", "float16" or "bfloat16", the type of all parameters.
        vectors: the type of norms and biases instead, if another one.
        shardings: a `jax.sharding.Sharding` per parameter, in the structure of the
            parameters; None puts everything on the first device.

    Returns:
        The module (computing in float32) and its parameters.

    Raises:
        ValueError: no such folder, no or unsupported config.json, no weights, a
            truncated file, or tensors that are missing, unused, of a wrong shape or
            type; each names what was found.
    """
    types = {
        1: tensor_files.dtype_of(vectors or dtype),
        2: tensor_files.dtype_of(dtype),
    }
    directory = pathlib.Path(path)
    config = ModelConfig.from_directory(directory)
    first = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    params: dict[str, Any] = {"layers": {}}
    with contextlib.ExitStack() as stack:
        tensors = tensor_files.open_tensors(directory, stack)
        tensor_files.check_tensors(tensors, config, directory)
        for name, entry in outer_parameters(config).items():
            where = shardings[name] if shardings else first
            target = types[len(entry.shape)]
            read = _reader([tensors[entry.source]], entry, target, stacked=False)
            params[name] = place(entry.shape, target, where, read)
        for name, entry in block_parameters(config).items():
            where = shardings["layers"][name] if shardings else first
            target = types[len(entry.shape)]
            layers = range(config.num_layers)
            sources = [tensors[entry.source.format(layer=i)] for i in layers]
            read = _reader(sources, entry, target, stacked=True)
            shape = (config.num_layers, *entry.shape)
            params["layers"][name] = place(shape, target, where, read)
    return Decoder(config), params


def save(
    path: str | os.PathLike[str],
    model: Decoder,
    params: dict[str, Any],
    *,
    dtype: str = "float32",
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write `config.json` and safetensors as transformers names them.

    Sharded parameters are gathered tensor by tensor, a layer at a time; nothing more is
    held. With several processes all of them call this, and the first one writes.

    Token ids (start, end, padding) are not the model's to know: the file says null, and
    the tokenizer or `generation_config.json` beside it says them.

    Args:
        path: the folder; made when absent. Weights that lie there are replaced.
        model: the decoder.
        params: its parameters, stacked; those that `adapt` made are written merged.
        dtype: "float32", "float16" or "bfloat16", the type in the file.
        shard_bytes: most bytes of tensors in a file; a tensor above it has its own.
            Above it there are `model-00001-of-00002.safetensors` and so on, and
            `model.safetensors.index.json`, and else `model.safetensors` alone.

    Raises:
        ValueError: an unknown dtype, or `shard_bytes` below 1.
    """
    itemsize = tensor_files.dtype_of(dtype).itemsize
    if shard_bytes < 1:
        raise ValueError(f"shard_bytes: wanted at least 1, got {shard_bytes}")
    config = model.config
    entries = tensor_files.stored_parameters(config)
    shapes = {n: tensor_files.stored_shape(entry) for n, entry in entries.items()}
    sizes = {name: int(np.prod(shape)) * itemsize for name, shape in shapes.items()}
    locations = _locations(config)

    def read(name: str) -> np.ndarray:
        x = _gather(params, *locations[name])
        return x.T if entries[name].transposed else x

    files = split_files(sizes, shard_bytes)
    if jax.process_index():
        for name in sizes:
            _gather(params, *locations[name])
        return
    directory = pathlib.Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    staged = []
    for file, names in files.items():
        chosen = {name: shapes[name] for name in names}
        staged.append(_staged(directory / file))
        tensor_files.write_tensors(staged[-1], chosen, dtype, read)
    if len(files) > 1:
        staged.append(_staged(directory / tensor_files.INDEX_FILE))
        staged[-1].write_text(_json(_index(files, sizes, itemsize)))
    staged.append(_staged(directory / "config.json"))
    ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    staged[-1].write_text(_json({**config.to_hf(), "dtype": dtype, **ids}))
    # A reader never sees half a file: each gets its name when all are complete.
    for file in staged:
        os.replace(file, file.with_suffix(""))
    wanted = {file.stem for file in staged}
    for pattern in tensor_files.PATTERNS:
        for file in directory.glob(pattern):
            if file.name not in wanted:
                file.unlink()


def _reader(
    sources: list[Any], entry: Parameter, target: np.dtype, *, stacked: bool
) -> Callable[[Bounds], np.ndarray]:
    """What `place` reads a parameter with; `stacked` ones have a source per layer."""

    def read(bounds: Bounds) -> np.ndarray:
        inner = tuple(slice(*pair) for pair in bounds[stacked:])
        chosen = sources[slice(*bounds[0])] if stacked else sources
        out = np.empty([end - start for start, end in bounds], target)
        for part, source in zip(out if stacked else [out], chosen, strict=True):
            if entry.transposed:
                _read_transposed(part, source, *inner)
            else:
                part[...] = source[inner]
        return out

    return read


def _read_transposed(out: np.ndarray, source: Any, rows: slice, columns: slice) -> None:
    """out[...] = source[columns, rows].T, in blocks that a cache holds: 3x faster."""
    for start in range(columns.start, columns.stop, TRANSPOSED_ROWS):
        end = min(start + TRANSPOSED_ROWS, columns.stop)
        block = source[start:end, rows].astype(out.dtype)
        out[:, start - columns.start : end - columns.start] = block.T


def _locations(config: ModelConfig) -> dict[str, tuple[str, int | None]]:
    """Our name of each stored tensor, and its layer."""
    places: dict[str, tuple[str, int | None]] = {
        entry.source: (name, None) for name, entry in outer_parameters(config).items()
    }
    for name, entry in block_parameters(config).items():
        for layer in range(config.num_layers):
            places[entry.source.format(layer=layer)] = (name, layer)
    return places


def _gather(params: dict[str, Any], name: str, layer: int | None) -> np.ndarray:
    """One tensor on the host; every process of its devices takes part."""
    if layer is None:
        x = params[name]
    else:
        x = _layer(params["layers"][name], layer)
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        everywhere = jax.NamedSharding(x.sharding.mesh, jax.P())
        x = jax.jit(lambda x: x, out_shardings=everywhere)(x)
    return np.asarray(x)


@jax.jit
def _layer(stacked: Any, layer: jax.Array) -> jax.Array:
    one = jax.tree.map(
        lambda x: jax.lax.dynamic_index_in_dim(x, layer, keepdims=False), stacked
    )
    return one.astype(jnp.float32) if isinstance(one, LowRank) else one


def split_files(sizes: dict[str, int], shard_bytes: int) -> dict[str, list[str]]:
    """Names of the tensors in each file, in order.

    Args:
        sizes: bytes of each tensor by its name.
        shard_bytes: most bytes in a file; a tensor above it has its own.

    Returns:
        File name -> names.
    """
    groups: list[list[str]] = [[]]
    room = shard_bytes
    for name, size in sizes.items():
        if groups[-1] and size > room:
            groups.append([])
            room = shard_bytes
        groups[-1].append(name)
        room -= size
    if len(groups) == 1:
        return {tensor_files.WEIGHTS_FILE: groups[0]}
    return {
        f"model-{i:05d}-of-{len(groups):05d}.safetensors": names
        for i, names in enumerate(groups, start=1)
    }


def _index(files: dict[str, list[str]], sizes: dict[str, int], itemsize: int) -> Any:
    """Content of the index: which file holds a tensor."""
    total = sum(sizes.values())
    return {
        "metadata": {"total_parameters": total // itemsize, "total_size": total},
        "weight_map": {name: file for file, names in files.items() for name in names},
    }


def _staged(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(f"{file.name}.partial")


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
