"""Trains a policy: python -m rlvr_jax.train --config=FILE.py:algorithm --workdir=DIR"""

import pathlib

from absl import flags

from rlvr_jax import command_line, config, distributed
from rlvr_jax.training.loop import train

_CONFIG = config.define_flag()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; made if missing.")
_RESUME = flags.DEFINE_string(
    "resume",
    None,
    "latest, none, a step, or the folder of another run to fork; by default latest,"
    " unless the folder holds another run.",
)
_COORDINATOR = flags.DEFINE_string(
    "coordinator",
    None,
    "host:port of process 0 if several processes train; JAX_COORDINATOR_ADDRESS, or"
    " what JAX finds out under Slurm, Open MPI and on Cloud TPUs, without the flag.",
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes", None, "How many; JAX_NUM_PROCESSES without the flag."
)
_PROCESS_ID = flags.DEFINE_integer(
    "process_id", None, "Of this one, from 0; JAX_PROCESS_ID without the flag."
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the resolved configuration.")


def main() -> None:
    """Checks the configuration and trains."""
    settings = config.parse(_CONFIG.value)
    if _DRY_RUN.value:
        print(config.to_json(settings))
        return
    if _WORKDIR.value is None:
        raise ValueError("--workdir is missing: name a folder for the run")
    distributed.start(
        coordinator=_COORDINATOR.value,
        num_processes=_NUM_PROCESSES.value,
        process_id=_PROCESS_ID.value,
        heartbeat_seconds=settings.mesh.heartbeat_seconds,
    )
    train(settings, pathlib.Path(_WORKDIR.value), resume=_RESUME.value)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    command_line.run(main)
