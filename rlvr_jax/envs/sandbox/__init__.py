"""Runs model-written programs behind bubblewrap and returns plain data.

Layers, each tried when a sandbox starts by doing what it should prevent
(`layers.LAYERS`; `sandbox.require` names those without which not to start):

namespaces: processes, network, IPC and names of the host are not there.
files: nothing of the host but the libraries and Python, read-only; a private folder in
    memory, emptied after each program.
user: another user than ours, without rights and without a way back.
seccomp: an allow-list of system calls, by architecture: no fork, exec, socket, ptrace,
    mount, keys, io_uring or bpf.
limits: processor time, address space, size of files, descriptors, output, results; the
    elapsed time, which a sleeping program cannot stretch, is the watcher's.
cgroup: memory and processes of a whole container, where the host permits groups.

A program is a forked child of an interpreter that never holds a task; a container is
replaced after N programs and at any anomaly (a limit passed, a process left behind, a
folder that could not be emptied, a broken protocol). Values leave as data: exact
numbers, text, and lists, tuples, dicts and sets of them; nothing is unpickled.

Jobs: `solution_job` and `tests_job` run apart, in the two containers of a cell, and
meet in messages: the solution cannot see the tests, end their run, or answer with an
object that claims to be equal. `program_job` runs a whole program with standard streams
of its own, judged outside. `together_job` runs tests in one process with the solution,
with the weaker promise that sandbox/together.py states.

Not covered: bugs of the kernel, of bubblewrap or of the processor; side channels, such
as how busy the machine is; a solution that computes its answers from the inputs that it
is called with; what a test source of the data set does.

Where bubblewrap cannot work there is no lesser wall such as Landlock: nothing starts,
or `allow_unsafe` runs programs with the host's files, network and processes in reach,
under `seccomp` and `limits` alone.
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
