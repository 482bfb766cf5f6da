"""What the warm interpreter does with packets that arrive together."""

import os
import struct
import time

from rlvr_jax.envs.sandbox import Job, Limits, Sandbox, solution_job


def test_a_kill_that_arrives_with_its_job_is_heard(monkeypatch):
    limits = Limits(wall_seconds=5.0)
    job = solution_job(["def f(x): return x"], entry_point="f", limits=limits)
    sandbox = Sandbox(workers=1)
    try:
        container = sandbox.cells[0].solution
        container.start()
        packets = []
        with monkeypatch.context() as patch:
            patch.setattr(
                container,
                "send",
                lambda kind, body: packets.append(
                    kind + struct.pack("<I", len(body)) + body
                ),
            )
            running = Job(container, job)
            container.send(b"K", b"")
        assert [packet[:1] for packet in packets] == [b"J", b"K"]
        start = time.monotonic()
        os.write(container.process.stdin.fileno(), b"".join(packets))
        while running.end is None:
            running.receive()
        assert running.end["killed"] == "controller"
        assert time.monotonic() - start < 3.0
    finally:
        sandbox.close()
