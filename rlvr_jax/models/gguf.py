"""Turn a Llama model in a GGUF file into a Hugging Face directory.

    python -m rlvr_jax.models.gguf MODEL.gguf OUTPUT_DIR [--sha256=HEX]

The directory holds config.json, generation_config.json, model.safetensors,
tokenizer.json and tokenizer_config.json (with the chat template). Only reading
the file needs the `gguf` extra; how its content maps is in `gguf_mapping`.

Weights are written as float32: a quantised weight is scale * q + minimum with
float16 scale and minimum, which float32 holds almost exactly and bfloat16 does not.
A loader can always round them later.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from rlvr_jax.models import gguf_mapping

OUTPUT_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def is_complete(directory: str | os.PathLike) -> bool:
    """Whether `directory` holds every file of a finished conversion."""
    return all((pathlib.Path(directory) / name).is_file() for name in OUTPUT_FILES)


def write_directory(
    metadata: Mapping[str, Any],
    tensors: Iterable[tuple[str, np.ndarray]],
    output_dir: str | os.PathLike,
) -> None:
    """Write the Hugging Face directory, all of it or nothing.

    Files are written into a folder beside `output_dir`, which gets its name at the
    end by one rename.

    Args:
        metadata: keys and plain Python values of the GGUF file.
        tensors: (GGUF name, float array), may be a generator.
        output_dir: must not exist, or be an empty folder.

    Raises:
        FileExistsError: `output_dir` holds something.
        ValueError: the model or its tokenizer cannot be converted.
    """
    output = pathlib.Path(output_dir).absolute()
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise FileExistsError(
            f"output_dir {output} is not empty; wanted a new or empty folder: choose"
            " another one or remove it"
        )
    weights = gguf_mapping.hugging_face_tensors(tensors, metadata)
    texts = {
        "config.json": gguf_mapping.llama_config(
            metadata, tied="lm_head.weight" not in weights
        ),
        "generation_config.json": gguf_mapping.generation_config(metadata),
        "tokenizer_config.json": gguf_mapping.tokenizer_config(metadata),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=output.parent, prefix=f".{output.name}.partial-"
    ) as scratch:
        staging = pathlib.Path(scratch) / "model"
        staging.mkdir()
        for name, content in texts.items():
            (staging / name).write_text(
                json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8"
            )
        (staging / "tokenizer.json").write_text(
            gguf_mapping.tokenizer_json(metadata), "utf-8"
        )
        save_file(weights, staging / "model.safetensors", metadata={"format": "pt"})
        # safetensors makes its file private; the others follow the umask.
        (staging / "model.safetensors").chmod((staging / "config.json").stat().st_mode)
        os.rename(staging, output)


def convert(
    gguf_file: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    sha256: str | None = None,
) -> None:
    """Convert a GGUF file; does nothing when `output_dir` is already complete.

    Args:
        gguf_file: a Llama model, in any quantisation that the `gguf` package reads.
        output_dir: see `write_directory`.
        sha256: expected digest of the file, 64 hex digits; None: not checked.

    Raises:
        ImportError: the `gguf` extra is not installed.
        ValueError: wrong digest, or a file that cannot be converted.
    """
    if is_complete(output_dir):
        return
    if sha256 is not None:
        with open(gguf_file, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(
                f"{gguf_file} has sha256 {found}; wanted {sha256}: the file is damaged"
                " or is another one, fetch it again"
            )
    metadata, tensors = _read(gguf_file)
    write_directory(metadata, tensors, output_dir)


def _read(gguf_file):
    """Metadata as plain values and a generator of dequantised tensors."""
    try:
        # Absolute import: the outside package, not this module.
        import gguf
    except ImportError as error:
        raise ImportError(
            "reading a .gguf file needs the gguf package, which is not installed:"
            " pip install rlvr_jax[gguf]"
        ) from error
    reader = gguf.GGUFReader(gguf_file)
    metadata = {name: field.contents() for name, field in reader.fields.items()}

    def tensors():
        for tensor in reader.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            # The file lists the fastest axis first.
            yield tensor.name, values.reshape(tensor.shape[::-1])

    return metadata, tensors()


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 0 done, 2 an error told in one line."""
    parser = argparse.ArgumentParser(
        prog="python -m rlvr_jax.models.gguf",
        description="Turn a Llama GGUF file into a Hugging Face directory.",
    )
    parser.add_argument("gguf_file", metavar="FILE.gguf")
    parser.add_argument("output_dir", metavar="OUTPUT_DIR")
    parser.add_argument("--sha256", help="expected digest of the file")
    options = parser.parse_args(argv)
    try:
        convert(options.gguf_file, options.output_dir, sha256=options.sha256)
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
