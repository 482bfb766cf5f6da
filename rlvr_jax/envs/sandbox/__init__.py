"""Runs model-written programs behind bubblewrap and returns plain data.

What it holds against: reading or writing the host's files, the network, other
processes, endless loops, memory, output and process bombs, and forged results: values
leave as data and are judged elsewhere. What it does not hold against: bugs of the
kernel, and a solution that computes its answers from the inputs it is called with.

Jobs: `solution_job` and `tests_job` run apart, in the two containers of a cell, and
meet in messages; `program_job` runs a whole program with standard streams of its own,
judged outside; `together_job` runs tests in one process with the solution, with the
weaker promise that sandbox/together.py states.
"""

from rlvr_jax.envs.sandbox.container import ContainerLost, Job, run_alone, wait_for
from rlvr_jax.envs.sandbox.jobs import (
    program_job,
    run_bytes,
    solution_job,
    tests_job,
    together_job,
)
from rlvr_jax.envs.sandbox.layers import LAYERS, SandboxError
from rlvr_jax.envs.sandbox.limits import Limits
from rlvr_jax.envs.sandbox.pool import Cell, Sandbox

__all__ = [
    "LAYERS",
    "Cell",
    "ContainerLost",
    "Job",
    "Limits",
    "Sandbox",
    "SandboxError",
    "program_job",
    "run_alone",
    "run_bytes",
    "solution_job",
    "tests_job",
    "together_job",
    "wait_for",
]
