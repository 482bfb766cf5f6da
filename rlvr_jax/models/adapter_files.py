"""Adapters in PEFT's format: adapter_config.json and adapter_model.safetensors."""

import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from rlvr_jax.models import tensor_files
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.lora import Lora
from rlvr_jax.models.parameters import block_parameters

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
# PEFT wraps a model twice, and the names in its files say so.
PREFIX = "base_model.model."


def save_adapters(
    path: str | os.PathLike[str],
    config: ModelConfig,
    adapters: dict[str, Any],
    lora: Lora,
    *,
    base: str,
    dtype: str = "float32",
) -> None:
    """Write adapters so that PEFT loads them onto the model they belong to.

    Args:
        path: the folder; made when absent.
        config: of the model.
        adapters: from `init_adapters`, all of them on this process's devices.
        lora: of the adapters.
        base: folder or name of the model without them.
        dtype: "float32", "float16" or "bfloat16", the type in the file.

    Raises:
        ValueError: an unknown dtype.
    """
    tensor_files.dtype_of(dtype)
    table = block_parameters(config)
    tensors: dict[str, np.ndarray] = {}
    for name, pair in adapters["layers"].items():
        module = table[name].source.removesuffix(".weight")
        for part, stacked in (("A", pair["a"]), ("B", pair["b"])):
            # A file holds [out, in], as of all matrices.
            columns = np.asarray(jax.device_get(stacked)).swapaxes(1, 2)
            for layer, matrix in enumerate(columns):
                place = module.format(layer=layer)
                tensors[f"{PREFIX}{place}.lora_{part}.weight"] = matrix
    directory = pathlib.Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    tensor_files.write_tensors(
        directory / WEIGHTS_FILE,
        {name: matrix.shape for name, matrix in tensors.items()},
        dtype,
        tensors.__getitem__,
    )
    modules = [table[name].source.split(".")[-2] for name in lora.targets]
    content = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": int(lora.alpha) if lora.alpha.is_integer() else lora.alpha,
        "target_modules": modules,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }
    (directory / CONFIG_FILE).write_text(json.dumps(content, indent=2) + "\n")
