"""One process of a run of several: python process.py SETTINGS WORKDIR SILENT.

The launcher's variables say how many there are. SETTINGS is a file of a configuration
in JSON; the verifier rewards letters, and abstains for the tasks in SILENT.
"""

import json
import pathlib
import sys
import zlib

import jax

from rlvr_jax import command_line, distributed, envs
from rlvr_jax import config as configs
from rlvr_jax.envs.verdict import Verdict, unknown
from rlvr_jax.training import loop, workbench


class Letters(envs.Verifier):
    """Rewards a response for its letters, unless it abstains."""

    def __init__(self, silent):
        super().__init__()
        self._silent = silent

    def grade(self, task, response):
        if task.id in self._silent:
            return unknown("abstained")
        reward = (zlib.crc32(f"{task.id} {response}".encode()) % 8) / 8
        solved = reward > 0.7
        status = "passed" if solved else "failed"
        return Verdict(reward, solved, "no", status, 0, 1, solved)


def main(settings, workdir, silent):
    """Trains as the command does."""
    jax.config.update("jax_numpy_rank_promotion", "raise")
    config = configs.parse(json.loads(pathlib.Path(settings).read_text()))
    distributed.start(heartbeat_seconds=config.mesh.heartbeat_seconds)
    verifier = Letters(silent.split(","))
    workbench.envs.make_verifier = lambda kind, **_: verifier
    loop.train(config, pathlib.Path(workdir), resume=None)


if __name__ == "__main__":
    arguments, sys.argv[1:] = sys.argv[1:], []
    command_line.run(lambda: main(*arguments))
