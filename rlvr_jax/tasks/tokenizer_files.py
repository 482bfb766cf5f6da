"""The files of a tokenizer in a Hugging Face directory: stop ids read, all written."""

import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

# What tools read beside tokenizer.json, where a model has them.
COPIED = (
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
GENERATION = "generation_config.json"


def eos_ids(path: pathlib.Path) -> list[int]:
    """The eos ids that a configuration file names, none if it is missing.

    Raises:
        ValueError: the file is no JSON object, or eos_token_id no id or list of ids.
    """
    eos = _content(path).get("eos_token_id")
    ids = [] if eos is None else eos if isinstance(eos, list) else [eos]
    if not all(isinstance(i, int) for i in ids):
        raise ValueError(
            f"{path}: eos_token_id: wanted an id or a list of ids, got {eos!r}"
        )
    return ids


def write_tokenizer(
    source: pathlib.Path,
    target: pathlib.Path,
    *,
    template: str,
    stop_ids: Sequence[int],
    pad_id: int,
) -> None:
    """Copies a tokenizer, and writes down how it was used.

    tokenizer.json is copied byte for byte, and the class that is named for transformers
    takes it as it is: others split some texts differently. (For model type qwen2,
    transformers 5 has its own class whatever is named; it agrees with Qwen's files.)

    Args:
        source: directory of the tokenizer.
        target: a directory; files of the same names are replaced.
        template: the chat template, for tokenizer_config.json.
        stop_ids: eos_token_id of generation_config.json; its other fields stay.
        pad_id: pad_token_id, where the source names none.
    """
    for name in COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    settings = _content(source / "tokenizer_config.json")
    settings |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": template,
    }
    _write(target / "tokenizer_config.json", settings)
    generation = _content(source / GENERATION)
    if generation.get("pad_token_id") is None:
        generation["pad_token_id"] = pad_id
    generation["eos_token_id"] = list(stop_ids)
    _write(target / GENERATION, generation)


def _content(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object; empty if the file is missing."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: wanted a JSON object: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: wanted a JSON object, got {str(content)[:80]!r}")
    return content


def _write(path: pathlib.Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
