"""Several processes of one run: how they start, wait for each other and exchange.

Every process runs the same program. Before each phase in which devices of different
processes speak to each other they meet at a barrier with a name, on the host: whoever
waits in vain can then say for what, and for whom.
"""

import hashlib
import itertools
import os
import sys
import time
from typing import Any, NoReturn

import jax
import numpy as np

# Neither the client of the coordination service nor the launchers that JAX knows have
# a public name; Orbax takes the first here too.
from jax._src import clusters
from jax._src import distributed as _service
from jax.experimental import multihost_utils

_meetings = itertools.count()


def start(
    *,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    heartbeat_seconds: int = 100,
) -> None:
    """Joins the other processes of the run, if there are any; before any use of JAX.

    What is not said is read from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID (or JOB_COMPLETION_INDEX, of an indexed Kubernetes job), and what is
    then missing JAX finds out itself: under Slurm and Open MPI, and on Cloud TPUs.

    Args:
        coordinator: host:port of process 0.
        num_processes: of the run.
        process_id: of this process, from 0.
        heartbeat_seconds: a process that is silent for so long is dead, and ends all.

    Raises:
        ValueError: a value that cannot be, or too little is known.
    """
    coordinator = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    num_processes = _number(num_processes, "JAX_NUM_PROCESSES")
    process_id = _number(process_id, "JAX_PROCESS_ID")
    said = any(x is not None for x in (coordinator, num_processes, process_id))
    if not said and not _launched():
        return
    if process_id is None:
        process_id = _number(None, "JOB_COMPLETION_INDEX")
    if num_processes is not None and process_id is not None:
        if not 0 <= process_id < num_processes:
            raise ValueError(
                f"process_id must be from 0 to {num_processes - 1} for num_processes"
                f" {num_processes}; got {process_id}"
            )
        if num_processes == 1:
            return
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process_id,
            heartbeat_timeout_seconds=heartbeat_seconds,
            shutdown_timeout_seconds=heartbeat_seconds,
        )
    except ValueError as error:
        raise ValueError(
            "several processes need coordinator (host:port), num_processes and"
            f" process_id, by flags or variables, or a launcher that JAX knows: {error}"
        ) from error


def leave(code: int) -> NoReturn:
    """Ends this process with an exit code, after an error.

    One of several does not stay for the others' goodbye, which they may never say: they
    find it silent within `heartbeat_seconds`.
    """
    if not jax.distributed.is_initialized():
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    if is_first():
        # The service that the others speak through lives here: let them hear the end
        # of what is under way, which may be the same error.
        time.sleep(1)
    os._exit(code)


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
    digest = hashlib.sha256(text.encode()).hexdigest()
    found = all_texts(f"compare {name}", digest, wait_seconds=wait_seconds)
    others = [str(process) for process, it in enumerate(found) if it != found[0]]
    if others:
        raise ValueError(
            f"{name}: process {', '.join(others)} of {jax.process_count()} started with"
            " another one than process 0 (this is process"
            f" {jax.process_index()}): start all with the same"
        )


def all_texts(name: str, text: str, *, wait_seconds: int) -> list[str]:
    """The text of every process, on every one of them, in their order.

    It goes over the host: nothing is compiled and no device is asked.

    Args:
        name: of the phase.
        text: of this process, up to a few megabytes.
        wait_seconds: how long to wait for the slowest.
    """
    if jax.process_count() == 1:
        return [text]
    client = _service.global_state.client
    key = f"{name} {next(_meetings)}"
    own = f"{key}/{jax.process_index()}"
    client.key_value_set(own, text)
    barrier(name, wait_seconds=wait_seconds)
    found = [
        client.blocking_key_value_get(f"{key}/{process}", wait_seconds * 1000)
        for process in range(jax.process_count())
    ]
    # Nobody leaves, and nothing is taken away, before all have read.
    barrier(f"end of {name}", wait_seconds=wait_seconds)
    client.key_value_delete(own)
    return found


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


def _number(value: int | None, name: str) -> int | None:
    """`value`, or else the number in an environment variable."""
    text = os.environ.get(name)
    if value is not None or not text:
        return value
    if not text.isdigit():
        raise ValueError(f"{name} must be a whole number; got {text!r}")
    return int(text)


def _launched() -> bool:
    """Whether a launcher that JAX knows started several processes."""
    for cluster in clusters.ClusterEnv._cluster_types:
        # Kubernetes would have to be asked over its network, by every single pod.
        if cluster.opt_in_only_method or cluster.name == "k8s":
            continue
        if cluster.is_env_present():
            return cluster.get_process_count() > 1
    return False
