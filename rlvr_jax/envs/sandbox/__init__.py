"""Runs model-written programs behind bubblewrap and returns plain data.

What it holds against: reading or writing the host's files, the network, other
processes, endless loops, memory, output and process bombs, and forged results: values
leave as data and are judged elsewhere. What it does not hold against: bugs of the
kernel, and a solution that computes its answers from the inputs it is called with.
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
