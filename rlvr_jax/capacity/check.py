"""A configuration and a topology -> a report."""

import pathlib
from collections.abc import Callable

from rlvr_jax.capacity.memory import device_bytes, phases
from rlvr_jax.capacity.plan import make_plan
from rlvr_jax.capacity.programs import (
    Program,
    compile_programs,
    make_plan_policy,
    make_train_step,
)
from rlvr_jax.capacity.report import Report
from rlvr_jax.capacity.topologies import Topology
from rlvr_jax.config import Config, model_directory
from rlvr_jax.models import ModelConfig, named_config


def model_shapes(config: Config, name: str | None = None) -> ModelConfig:
    """The shapes of a run's model; no weights are read.

    Args:
        config: `model.path` is a Hugging Face folder, or ends in a model's name.
        name: of a model, instead of what `model.path` says.

    Raises:
        ValueError: there is neither such a folder nor such a model.
    """
    if name:
        return named_config(name)
    directory = model_directory(config)
    if directory.is_dir():
        return ModelConfig.from_directory(directory)
    return named_config(pathlib.Path(config.model.path).name.lower())


def check_capacity(
    config: Config,
    model: ModelConfig,
    topology: Topology,
    *,
    compiled: Callable[[Program], None] = lambda program: None,
) -> Report:
    """Compiles the train step and the sampler for a topology; adds up their needs.

    Args:
        config: of the run.
        model: its shapes.
        topology: where it is to run; its devices need not exist.
        compiled: told of each program once it is compiled.

    Raises:
        ValueError: a mesh that does not divide the devices, the model or the batch;
            nothing has been compiled then.
    """
    plan = make_plan(config, model, topology)
    programs = []
    for program in compile_programs(plan):
        compiled(program)
        programs.append(program)
    state = make_train_step(plan).state_shapes()
    found = phases(
        plan,
        {program.name: program for program in programs},
        params=device_bytes(state.params),
        frozen=device_bytes(make_plan_policy(plan).frozen),
        optimizer=device_bytes(state.opt_state),
    )
    return Report(plan, programs, found)
