"""Trains a policy: python -m rlvr_jax.train --config=FILE.py:algorithm --workdir=DIR"""

import pathlib

from absl import flags

from rlvr_jax import command_line, config
from rlvr_jax.training.loop import train

_CONFIG = config.define_flag()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; made if missing.")
_RESUME = flags.DEFINE_string(
    "resume",
    None,
    "latest, none, a step, or the folder of another run to fork; by default latest,"
    " unless the folder holds another run.",
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
    train(settings, pathlib.Path(_WORKDIR.value), resume=_RESUME.value)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    command_line.run(main)
