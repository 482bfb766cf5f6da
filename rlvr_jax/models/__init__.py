"""Decoders in Flax: the module, its attention, its head and its weights."""

from rlvr_jax.models.adapter_files import save_adapters
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.decoder import Block, Decoder, init
from rlvr_jax.models.decoding import forward_layers, unstack
from rlvr_jax.models.head import head_logits, logits, target_log_probs
from rlvr_jax.models.lora import Lora, adapt, adapter_axes, init_adapters, merge
from rlvr_jax.models.parameters import logical_axes
from rlvr_jax.models.shapes import named_config, parameter_count
from rlvr_jax.models.weights import load, save

__all__ = [
    "Block",
    "Decoder",
    "Lora",
    "ModelConfig",
    "adapt",
    "adapter_axes",
    "forward_layers",
    "head_logits",
    "init",
    "init_adapters",
    "load",
    "logical_axes",
    "logits",
    "merge",
    "named_config",
    "parameter_count",
    "save",
    "save_adapters",
    "target_log_probs",
    "unstack",
]
