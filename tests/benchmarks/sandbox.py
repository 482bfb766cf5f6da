"""Programs per second: the warm sandbox against a fresh bubblewrap + Python each.

    python tests/benchmarks/sandbox.py [--programs=400] [--workers=2]

Both sides run in one process, one after the other, with the same wall; the ratio is
the figure to compare between machines.
"""

import argparse
import concurrent.futures
import subprocess
import time

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import wall
from rlvr_jax.tasks.records import Task

TASK = Task(
    id="line",
    kind="programs",
    prompt="",
    visible_tests=((1, 5), (2, 7)),
    tests=tuple((x, 2 * x + 3) for x in range(8)),
    entry_point="f",
)


def warm(programs: int, workers: int) -> float:
    """Programs per second of the programs verifier, all different."""
    with envs.make_verifier("programs", workers=workers) as verifier:
        verifier.verify([(TASK, f"x*2+{-k}") for k in range(4 * workers)])
        start = time.perf_counter()
        verdicts = verifier.verify([(TASK, f"x*2+3+0*{k}") for k in range(programs)])
        seconds = time.perf_counter() - start
    assert all(verdict.solved for verdict in verdicts)
    return programs / seconds


def fresh(programs: int, workers: int, imports: str) -> float:
    """Programs per second when each has a new container and a new interpreter."""
    bwrap = wall.find_bwrap()
    _, _, executable = wall.interpreter()
    command = wall.command(
        bwrap, info_fd="2", scratch_bytes=1 << 20, user_namespace=True
    )
    source = f"{imports}\nfor x in range(8): print(x * 2 + 3)"
    command += [executable, "-I", "-S", "-c", source]

    def one(_: int) -> None:
        done = subprocess.run(
            command, env=wall.environment(), capture_output=True, check=True
        )
        assert done.stdout.endswith(b"17\n")

    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        start = time.perf_counter()
        list(threads.map(one, range(programs)))
        return programs / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    imports = "import typing, math, collections, itertools, functools, heapq, re, json"
    ours = warm(options.programs, options.workers)
    bare = fresh(options.programs // 8, options.workers, "")
    full = fresh(options.programs // 8, options.workers, imports)
    print(f"warm sandbox            {ours:8.1f} programs/s")
    print(f"fresh, bare interpreter {bare:8.1f} programs/s  ratio {ours / bare:.1f}")
    print(f"fresh, same imports     {full:8.1f} programs/s  ratio {ours / full:.1f}")


if __name__ == "__main__":
    main()
