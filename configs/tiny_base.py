"""The small model shipped with the package; see its docstring for what it is."""

import dataclasses

from ml_collections import ConfigDict

from rlvr_jax.training.supervised import PretrainConfig


def get_config() -> ConfigDict:
    """Sizes and data of the base model."""
    config = ConfigDict(dataclasses.asdict(PretrainConfig()))
    config.steps = 1000
    config.optimizer.learning_rate = 3e-3
    config.optimizer.schedule = "linear"
    config.optimizer.warmup_steps = 50
    config.optimizer.weight_decay = 0.05
    return config
