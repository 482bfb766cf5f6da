"""Configuration: sections of frozen dataclasses, filled from files and flags.

A configuration file returns an `ml_collections.ConfigDict` made by `default_config`;
flags override single fields; `parse` turns the result into a checked `Config`.
"""

from rlvr_jax.config.parsing import (
    build,
    default_config,
    define_flag,
    parse,
    to_json,
)
from rlvr_jax.config.sections import (
    CheckpointSection,
    Config,
    EvalSection,
    LoraSection,
    MeshSection,
    ModelSection,
    ObjectiveSection,
    OptimizerSection,
    RolloutSection,
    SamplerSection,
    SandboxSection,
    TasksSection,
    UpdateSection,
    model_directory,
)

__all__ = [
    "CheckpointSection",
    "Config",
    "EvalSection",
    "LoraSection",
    "MeshSection",
    "ModelSection",
    "ObjectiveSection",
    "OptimizerSection",
    "RolloutSection",
    "SamplerSection",
    "SandboxSection",
    "TasksSection",
    "UpdateSection",
    "build",
    "default_config",
    "define_flag",
    "model_directory",
    "parse",
    "to_json",
]
