"""Runs on TPU slices; docs/compile_check.md has those that were compiled for theirs.

    python -m rlvr_jax.compile_check --config=configs/pods.py:qwen3_4b_murphy \
        --topology=v5e:8x8
    python -m rlvr_jax.train --config=configs/pods.py:qwen3_4b_murphy --workdir=RUN \
        --config.model.path=DIR --config.tasks.source=tasks.jsonl

`compile_check` knows the model by the name that `model.path` ends in and reads no
weights; training needs the folder. Tokens: attempts of a path share `rollout.budget`.
"""

from ml_collections import ConfigDict

from configs import algorithms
from rlvr_jax.config import default_config


def qwen3_06b_reapo() -> ConfigDict:
    """Qwen3-0.6B, ReAPO: 16 chains of two attempts that share 2,048 tokens. v5e:2x4."""
    config = _base("qwen3-0.6b", "reapo", prompt=512, response=1024, feedback=256)
    config.rollout.budget = 2048
    config.rollout.prompts = 8
    config.sampler.contexts = (4,)
    config.update.rows = 8
    config.update.row_length = 512 + 4 * (2 * 1024 + 256)
    config.update.target_length = 8 * 1024
    return config


def qwen3_4b_murphy() -> ConfigDict:
    """Qwen3-4B, Murphy: 8 attempts, 8 retries of each, 4,096 tokens. v5e:8x8."""
    config = _base("qwen3-4b", "murphy_mars", prompt=512, response=2048, feedback=512)
    config.rollout.budget = 4096
    config.rollout.prompts = 16
    config.sampler.contexts = (1,)
    config.update.rows = 16
    config.update.row_length = 512 + 2048 + 512 + 2 * 2048
    config.update.target_length = 3 * 2048
    config.mesh.tensor = 4
    return config


def olmo2_7b_murphy() -> ConfigDict:
    """OLMo-2-7B, Murphy within its 4,096 tokens of context. v5p:2x2x4."""
    config = _base("olmo2-7b", "murphy_mars", prompt=512, response=1536, feedback=512)
    config.rollout.prompts = 8
    config.sampler.contexts = (1,)
    config.sampler.chunk = 384
    config.update.rows = 8
    config.update.row_length = 512 + 1536 + 512 + 2 * 1536
    config.update.target_length = 3 * 1536
    config.mesh.tensor = 4
    return config


def qwen3_32b_grpo() -> ConfigDict:
    """Qwen3-32B, GRPO: 16 attempts of 4,096 tokens. v5p:4x4x4."""
    config = _base("qwen3-32b", "grpo", prompt=512, response=4096, feedback=64)
    config.rollout.prompts = 64
    config.sampler.contexts = (1,)
    config.update.rows = 16
    config.update.row_length = 512 + 2 * 4096
    config.update.target_length = 2 * 4096
    config.mesh.tensor = 4
    return config


def _base(
    model: str, algorithm: str, *, prompt: int, response: int, feedback: int
) -> ConfigDict:
    """What all of them share."""
    config = algorithms.apply(default_config(), algorithm)
    config.model.path = model
    config.model.dtype = "bfloat16"
    config.tasks.max_prompt_tokens = prompt
    config.tasks.too_long = "skip"
    config.rollout.max_response_tokens = response
    config.rollout.max_feedback_tokens = feedback
    config.sampler.chunk = 256
    config.sampler.cache_bytes = 80 * 2**30
    config.update.head_chunk = 512
    config.optimizer.learning_rate = 1e-6
    config.eval.turns = len(config.rollout.branching)
    config.mesh.fsdp = -1
    return config


def get_config(name: str = "qwen3_4b_murphy") -> ConfigDict:
    """One of the runs above, by the name of its function."""
    runs = (qwen3_06b_reapo, qwen3_4b_murphy, olmo2_7b_murphy, qwen3_32b_grpo)
    by_name = {run.__name__: run for run in runs}
    if name not in by_name:
        raise ValueError(f"name must be one of {', '.join(by_name)}; got {name!r}")
    return by_name[name]()
