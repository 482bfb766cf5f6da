"""Several processes of one run: how they start, wait for each other and exchange.

Every process runs the same program. Before each phase in which devices of different
processes speak to each other they meet at a barrier with a name, on the host: whoever
waits in vain can then say for what, and for whom.
"""

import hashlib
import itertools
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

# The client of the coordination service has no public name; Orbax takes it here too.
from jax._src import distributed as _service
from jax.experimental import multihost_utils

# More than one of these: a launcher started processes that belong together, and JAX
# finds out the rest itself.
COUNTS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "MEGASCALE_NUM_SLICES")
_meetings = itertools.count()


def start(
    *,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    detect: bool = False,
    heartbeat_seconds: int = 100,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Joins the other processes of the run, if there are any; before any use of JAX.

    What is not said is read from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID (or JOB_COMPLETION_INDEX, of an indexed Kubernetes job), and what is
    then missing JAX finds out itself: under Slurm, Open MPI, and on Cloud TPUs.

    Args:
        coordinator: host:port of process 0.
        num_processes: of the run.
        process_id: of this process, from 0.
        detect: ask JAX even if no variable of a launcher is set, as on the hosts of a
            TPU pod.
        heartbeat_seconds: a process that is silent for so long is dead, and ends all.
        environment: variables.

    Raises:
        ValueError: a value that cannot be, or too little is known.
    """
    coordinator = coordinator or environment.get("JAX_COORDINATOR_ADDRESS")
    num_processes = _number(num_processes, environment, "JAX_NUM_PROCESSES")
    process_id = _number(process_id, environment, "JAX_PROCESS_ID")
    said = not coordinator == num_processes == process_id == None  # noqa: E711
    if said and process_id is None:
        process_id = _number(None, environment, "JOB_COMPLETION_INDEX")
    if not (said or detect or _launched(environment)):
        return
    if num_processes is not None and process_id is not None:
        if not 0 <= process_id < num_processes:
            raise ValueError(
                f"--process_id must be from 0 to {num_processes - 1}, for"
                f" --num_processes={num_processes}; got {process_id}"
            )
        if num_processes == 1:
            return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process_id,
            heartbeat_timeout_seconds=heartbeat_seconds,
        )
    except ValueError as error:
        raise ValueError(
            "several processes need --coordinator=HOST:PORT, --num_processes and"
            f" --process_id, or a launcher that JAX knows: {error}"
        ) from error


def is_first() -> bool:
    """Whether this is process 0, which writes what the run writes once."""
    return jax.process_index() == 0


def share(count: int) -> range:
    """This process's part of `count` things: neighbours, as many as the others' or one
    more; it may be empty."""
    return share_of(count, jax.process_count(), jax.process_index())


def share_of(count: int, num_processes: int, process_id: int) -> range:
    """The part of `count` things that a process has.

    Example:
        >>> [list(share_of(5, 3, i)) for i in range(3)]
        [[0, 1], [2, 3], [4]]
    """
    each, more = divmod(count, num_processes)
    start = process_id * each + min(process_id, more)
    return range(start, start + each + (process_id < more))


def barrier(name: str, *, wait_seconds: int) -> None:
    """Returns when every process has come here; nothing to do for one process.

    Args:
        name: of what comes next.
        wait_seconds: how long to wait for the slowest.

    Raises:
        TimeoutError: somebody did not come; names the phase, and who it was if known.
    """
    if jax.process_count() == 1:
        return
    meeting = f"{name} {next(_meetings)}"
    try:
        _service.global_state.client.wait_at_barrier(meeting, wait_seconds * 1000)
    except jax.errors.JaxRuntimeError as error:
        raise TimeoutError(
            f"process {jax.process_index()} waited for the others before {name!r}, at"
            f" most {wait_seconds} s: {str(error)[:400]}"
        ) from error


def check_same(name: str, text: str, *, wait_seconds: int) -> None:
    """Raises ValueError in every process unless all have the same text.

    Nothing is compiled and no device is asked.

    Args:
        name: of what is compared.
        text: of this process.
        wait_seconds: how long to wait for the slowest.
    """
    if jax.process_count() == 1:
        return
    client, own = _service.global_state.client, jax.process_index()
    key = f"{name} {next(_meetings)}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    client.key_value_set(f"{key}/{own}", digest)
    barrier(f"compare {name}", wait_seconds=wait_seconds)
    found = [
        client.blocking_key_value_get(f"{key}/{process}", wait_seconds * 1000)
        for process in range(jax.process_count())
    ]
    others = [process for process, it in enumerate(found) if it != found[0]]
    # Nobody leaves, and with it ends the service, before all have read.
    barrier(f"compared {name}", wait_seconds=wait_seconds)
    if others:
        raise ValueError(
            f"{name}: process{'es' * (len(others) > 1)} {', '.join(map(str, others))} of"
            f" {jax.process_count()} started with another one than process 0 (this is"
            f" process {own}): start all with the same"
        )


def all_rows(arrays: Any, count: int) -> Any:
    """The rows of all processes, in order, on every one of them.

    A collective: all processes call it, behind a barrier.

    Args:
        arrays: pytree of NumPy arrays whose first axis is this process's `share` of
            `count` rows.
        count: rows of all processes.
    """
    num_processes = jax.process_count()
    if num_processes == 1:
        return arrays
    shares = [share_of(count, num_processes, i) for i in range(num_processes)]
    largest = len(shares[0])

    def pad(rows: np.ndarray) -> np.ndarray:
        more = [(0, largest - len(rows))] + [(0, 0)] * (rows.ndim - 1)
        return np.pad(rows, more)

    gathered = multihost_utils.process_allgather(jax.tree.map(pad, arrays))
    return jax.tree.map(
        lambda x: np.concatenate(
            [np.asarray(x[i][: len(own)]) for i, own in enumerate(shares)]
        ),
        gathered,
    )


def each(values: np.ndarray) -> np.ndarray:
    """`values` of every process, stacked on a new first axis; a collective."""
    if jax.process_count() == 1:
        return values[None]
    return np.asarray(multihost_utils.process_allgather(values))


def _number(
    value: int | None, environment: Mapping[str, str], name: str
) -> int | None:
    if value is not None or not environment.get(name):
        return value
    text = environment[name]
    if not text.isdigit():
        raise ValueError(f"{name} must be a whole number; got {text!r}")
    return int(text)


def _launched(environment: Mapping[str, str]) -> bool:
    """Whether a launcher says that there are several processes."""
    counts = [environment.get(name, "") for name in COUNTS]
    hosts = environment.get("TPU_WORKER_HOSTNAMES", "").split(",")
    return len(hosts) > 1 or any(c.isdigit() and int(c) > 1 for c in counts)
