"""Tests that run in one jail with the solution, and what is believed of them."""

import secrets

from rlvr_jax.envs.code import inventory
from rlvr_jax.envs.code.reports import Report, verdict_of
from rlvr_jax.envs.code.sources import STOPPED, all_tests, framework
from rlvr_jax.envs.sandbox import Job, Limits, together_job
from rlvr_jax.envs.sandbox.container import Container
from rlvr_jax.envs.verdict import Verdict
from rlvr_jax.tasks.records import Task

TAMPERED = "Your code changed the tests or their tools."


def grade_together(
    task: Task, response: str, blocks: list, container: Container, limits: Limits
) -> Verdict:
    """Runs a task's tests beside the solution.

    The tests to be run are known here, from their text. A test has passed if it was
    reported as often as it runs, each time as passed, with a nonce that the solution
    was not handed; if nothing was tampered with; and if the process came to its end.

    Args:
        task: its tests are source texts.
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        container: where both run.
        limits: of the solution, all tests together.
    """
    kind = framework(task)
    nonces = secrets.token_bytes(16), secrets.token_bytes(16)
    job = together_job(
        [source for source, _ in blocks],
        framework=kind,
        nonce=nonces[0],
        entry_point=task.entry_point,
        limits=limits,
        preamble=task.metadata.get("preamble", ""),
        files=task.metadata.get("files", {}),
    )
    tests = {"sources": all_tests(task), "setup": task.setup, "nonce": nonces[1]}
    report = Report(inventory.items(tuple(all_tests(task)), kind))
    running = Job(container, job)
    try:
        _listen(running, tests, nonces, report)
    except BaseException:
        container.spoiled = True
        raise
    end = running.end
    if end["killed"] or end["exit"] != 0 or running.garbage:
        report.complete = False
    if end["killed"] in STOPPED:
        report.stopped = STOPPED[end["killed"]]
    elif report.tampered:
        report.stopped = ("failed", TAMPERED)
    return verdict_of(task, response, blocks, report)


def _listen(running, tests, nonces, report):
    while running.end is None:
        for frame in running.receive():
            kind = frame[0] if isinstance(frame, tuple) and frame else None
            if report.loaded is None:
                report.loaded = ("load_error", frame)
                if kind == "loaded" and frame[1:2] == nonces[:1] and len(frame) == 3:
                    report.loaded = ("loaded", frame[2])
                    running.send(tests)
                else:
                    # It may be waiting for tests in the harness's place.
                    running.cancel()
                    return
            elif kind is None or frame[1:2] != nonces[1:]:
                report.tampered = True
            elif kind == "result" and len(frame) == 6:
                report.add(*frame[2:])
            elif kind == "done" and len(frame) == 3:
                report.complete = True
                report.tampered = report.tampered or bool(frame[2])
