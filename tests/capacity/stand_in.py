"""Eight fake CPU devices that stand in for a TPU slice."""

import jax

from rlvr_jax.capacity.chips import Chip
from rlvr_jax.capacity.topologies import Topology
from rlvr_jax.config import default_config, parse
from rlvr_jax.models import ModelConfig

MODEL = ModelConfig(
    "qwen3",
    vocab_size=256,
    width=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    mlp_width=64,
    qk_norm=True,
)


def topology(*, memory=2**30):
    """Eight chips on one host, with round peaks and `memory` bytes each."""
    chip = Chip("stand-in", 1e12, memory, 1e11, 1e10, 2, 8, ("2x4",))
    return Topology("stand-in:2x4", chip, tuple(jax.devices()[:8]), 8)


def config(**changes):
    """A small run on fsdp 4, tensor 2; `changes` as `section__field=value`."""
    values = default_config()
    values.rollout.branching = (4, 2)
    values.rollout.prompts = 4
    values.rollout.max_response_tokens = 16
    values.rollout.max_feedback_tokens = 8
    values.tasks.max_prompt_tokens = 24
    values.sampler.contexts = (4,)
    values.sampler.chunk = 16
    values.update.rows = 8
    values.update.row_length = 64
    values.update.target_length = 64
    values.update.head_chunk = 64
    values.eval.turns = 2
    values.mesh.fsdp, values.mesh.tensor = 4, 2
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    values.update_from_flattened_dict(changes)
    return parse(values)
