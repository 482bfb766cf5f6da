"""What the warm interpreter does with packets that arrive together."""

import os
import struct
import time
import types

from rlvr_jax.envs.sandbox import Job, Limits, Sandbox, solution_job, watch


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


def test_results_wait_once_the_one_answer_is_there():
    packets = [(b"D", b"the tests")]
    zygote = types.SimpleNamespace(
        buffered_packet=lambda: packets.pop() if packets else None
    )
    pipes = [os.pipe() for _ in range(3)]
    (_, to_child), (results, told), (output, _) = pipes
    limits = Limits().as_dict()
    watched = watch.Watch(
        zygote, os.getpid(), to_child, results, output, limits, "once"
    )
    try:
        os.write(told, b"loaded")
        assert results in {fd for fd, _ in watched.poll.poll(0)}
        watched.obey()
        # They are there, and are collected with those that follow.
        assert results not in {fd for fd, _ in watched.poll.poll(0)}
        assert results in watched.room
    finally:
        for fd in (watched.pidfd, *(fd for pair in pipes for fd in pair)):
            os.close(fd)
