"""Who starts as one of several processes, and who has which part of the work."""

import jax
import numpy as np
import pytest

from rlvr_jax import distributed

VARIABLES = (
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JOB_COMPLETION_INDEX",
    "SLURM_JOB_ID",
    "OMPI_MCA_orte_hnp_uri",
)


@pytest.fixture
def started(monkeypatch):
    """Arguments of `jax.distributed.initialize`, which is not called."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    calls = []
    monkeypatch.setattr(
        jax.distributed,
        "initialize",
        lambda *arguments, **settings: calls.append((*arguments, settings)),
    )
    return calls


def test_alone_nothing_starts(started, monkeypatch):
    distributed.start()
    monkeypatch.setenv("JAX_NUM_PROCESSES", "1")
    monkeypatch.setenv("JAX_PROCESS_ID", "0")
    distributed.start(coordinator="host:1")
    assert started == []


def test_flags_go_before_variables(started, monkeypatch):
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "host:1")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "4")
    monkeypatch.setenv("JAX_PROCESS_ID", "3")
    distributed.start(heartbeat_seconds=7)
    distributed.start(coordinator="other:2", num_processes=2, process_id=0)
    assert [call[:3] for call in started] == [("host:1", 4, 3), ("other:2", 2, 0)]
    assert started[0][3]["heartbeat_timeout_seconds"] == 7


def test_an_indexed_job_gives_the_number(started, monkeypatch):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "5")
    # An index alone is any job's: it says nothing about other processes.
    distributed.start()
    assert started == []
    distributed.start(coordinator="host:1", num_processes=8)
    assert started[0][:3] == ("host:1", 8, 5)


@pytest.mark.parametrize(("tasks", "number"), [("1", 0), ("4", 1)])
def test_slurm_is_found_by_jax(started, monkeypatch, tasks, number):
    for name, value in {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_NODELIST": "n1",
        "SLURM_NTASKS": tasks,
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_STEP_NUM_NODES": "1",
    }.items():
        monkeypatch.setenv(name, value)
    distributed.start()
    # Nothing is said: JAX reads it.
    assert [call[:3] for call in started] == [(None, None, None)] * number


def test_values_that_cannot_be(started, monkeypatch):
    with pytest.raises(ValueError, match=r"process_id must be from 0 to 1 .* got 2"):
        distributed.start(coordinator="host:1", num_processes=2, process_id=2)
    monkeypatch.setenv("JAX_NUM_PROCESSES", "two")
    with pytest.raises(ValueError, match=r"JAX_NUM_PROCESSES must be a whole .*'two'"):
        distributed.start()


def test_too_little_is_known(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def refuse(*arguments, **settings):
        raise ValueError("Number of processes must be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    message = r"several processes need coordinator .*: Number of processes must be"
    with pytest.raises(ValueError, match=message):
        distributed.start(coordinator="localhost:1")


@pytest.mark.parametrize(("count", "processes"), [(0, 2), (1, 3), (7, 3), (8, 4)])
def test_shares_are_even_and_in_order(count, processes):
    shares = [distributed.share_of(count, processes, i) for i in range(processes)]
    assert [thing for share in shares for thing in share] == list(range(count))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes[0] == max(sizes)


def test_one_process_waits_for_nobody():
    distributed.barrier("nothing", wait_seconds=1)
    distributed.check_same("nothing", "x", wait_seconds=1)
    assert distributed.is_first()
    assert distributed.share(3) == range(3)
    rows = {"a": np.arange(3)}
    assert distributed.all_rows(rows, 3) is rows
    np.testing.assert_array_equal(distributed.each(np.arange(2)), [[0, 1]])
