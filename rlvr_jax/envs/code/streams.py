"""Whole programs: standard input in, standard output out, compared outside the jail."""

import secrets

from rlvr_jax.envs.code.comparison import same_output
from rlvr_jax.envs.code.sources import (
    HIDDEN_FEEDBACK,
    NO_CODE_FEEDBACK,
    PASSED_FEEDBACK,
    STOPPED,
    all_tests,
)
from rlvr_jax.envs.feedback import VALUE_CHARACTERS, load_error
from rlvr_jax.envs.sandbox import Limits, codec, program_job, run_bytes
from rlvr_jax.envs.sandbox.container import Container
from rlvr_jax.envs.verdict import Verdict, cut
from rlvr_jax.tasks.records import Task

# What the report of an exception takes at most, after the program's own output.
_REPORT_BYTES = 1 << 16


def grade_program(
    task: Task, response: str, blocks: list, container: Container, limits: Limits
) -> Verdict:
    """Runs a program once per test, each time in a fresh child.

    The expected outputs stay here: a program can only win by printing them. After a
    run that exceeds its time or its output the remaining tests are not run and count
    as failed.

    Args:
        task: its tests are pairs (standard input, expected standard output).
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        container: where the program runs.
        limits: of each run.
    """
    tests, outcomes = all_tests(task), []
    for given, expected in tests:
        outcomes.append(_one_run(task, blocks, given, expected, container, limits))
        if outcomes[-1][0] in ("timeout", "output_limit", "load_error"):
            break
    return _judge(task, response, blocks, tests, outcomes)


def _one_run(task, blocks, given, expected, container, limits):
    """(status, output text, report) of one test."""
    nonce = secrets.token_bytes(16)
    room = limits.output_bytes
    # An expected output over the cap raises it; in steps, to say little about it.
    while room < 2 * len(expected.encode()):
        room *= 4
    job = program_job(
        [source for source, _ in blocks],
        stdin=given,
        nonce=nonce,
        limits=limits,
        stdout_bytes=room + _REPORT_BYTES,
        preamble=task.metadata.get("preamble", ""),
        files=task.metadata.get("files", {}),
    )
    data, end = run_bytes(container, job)
    written, _, tail = data.rpartition(nonce)
    report = _report(tail) if nonce in data else None
    output = (written if report else data).decode("utf-8", "replace")
    if end["killed"] in STOPPED:
        status = STOPPED[end["killed"]][0]
    elif len(output) > room:
        status = "output_limit"
    elif report and report[0] == "load_error":
        status = "load_error"
    elif report and report[0] == "error":
        status = "error"
    elif end["killed"] or end["exit"] != 0:
        status, report = "error", ("exit", end["exit"])
    else:
        status = "passed" if same_output(output, expected) else "failed"
    return status, output, report


def _report(data):
    """What the child says went wrong; only shown, never believed."""
    try:
        (report,) = codec.FrameReader().feed(data)
    except ValueError:
        return None
    shaped = isinstance(report, tuple) and report
    return report if shaped and isinstance(report[0], str) else None


def _judge(task, response, blocks, tests, outcomes):
    passed = sum(status == "passed" for status, _, _ in outcomes)
    total = len(tests)
    if passed == total:
        return Verdict(1.0, True, PASSED_FEEDBACK, "passed", total, total, True)
    first = next(i for i, (status, _, _) in enumerate(outcomes) if status != "passed")
    status, output, report = outcomes[first]
    if status == "load_error":
        status, text = load_error(response, blocks, report)
        if text.startswith("SyntaxError") and blocks == [(response, 0)]:
            status, text = "no_answer", f"{NO_CODE_FEEDBACK}\n{text}"
        return Verdict(0.0, False, text, status, 0, total)
    visible_passed = first >= len(task.visible_tests)
    status, text = _explain(response, blocks, status, output, report, tests[first])
    if visible_passed:
        text = HIDDEN_FEEDBACK
    else:
        text = f"Test failed. Input:\n{_shown(tests[first][0])}\n{text}"
    return Verdict(passed / total, False, text, status, passed, total, visible_passed)


def _explain(response, blocks, status, output, report, test):
    """(status, sentences) of the first failed test."""
    if status in ("timeout", "output_limit"):
        return status, dict(STOPPED.values())[status]
    if status == "error" and report[0] == "error":
        return load_error(response, blocks, report)
    if status == "error":
        code = report[1]
        how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
        return "error", f"Your program ended {how}."
    wanted = _shown(test[1])
    return status, f"Expected output:\n{wanted}\nYour output:\n{_shown(output)}"


def _shown(text):
    return cut(text.rstrip(), VALUE_CHARACTERS) or "(nothing)"
