"""Long proofs about the sandbox; the default tests run small versions of them.

    python -m tests.benchmarks.sandbox_proof leaks [--runs=10000] [--workers=4]
    python -m tests.benchmarks.sandbox_proof concurrency [--rounds=5] [--programs=300]

`leaks` grades a mixture of right, wrong and hostile programs and looks at what is left:
processes, descriptors, files, control groups, kernel objects. `concurrency` grades the
same programs one at a time and 64 at a time, several times, and compares the verdicts.
Each prints one JSON object and ends with code 1 if the proof fails.
"""

import argparse
import collections
import dataclasses
import json
import resource
import sys
import tempfile
import time

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.envs.verdict import Verdict
from rlvr_jax.tasks.records import Task
from tests.envs.hostile import suite

# Its tests handle an object of the solution, so both run in one container.
TOGETHER = Task(
    id="together",
    kind="code",
    prompt="",
    setup="node = Node(3)",
    tests=("assert f(node) == 3",),
    entry_point="f",
)
NODE = """
class Node:
    def __init__(self, x): self.x = x
def f(node): return node.x
"""
BATCH = 500
# 64 programs on two cores: each may have to wait for all the others.
PATIENT = Limits(cpu_seconds=0.4, wall_seconds=120.0, memory_bytes=256 << 20)


def mixture(runs: int) -> list[tuple[tuple[Task, str], tuple | None]]:
    """`runs` different pairs, each with the (status, passed) that it must get.

    One in ten is hostile (None: not passed is all that is asked), one in ten runs in
    one jail with its tests, the others are right and wrong programs in two jails.
    """
    attacks, found = suite.all_attacks(), []
    for number in range(runs):
        if number % 10 == 0:
            theme, attack = attacks[number // 10 * 11 % len(attacks)]
            found.append((suite.pair(attack, theme, str(number)), None))
        elif number % 10 == 5:
            found.append(((TOGETHER, f"{NODE}# {number}"), ("passed", 1)))
        else:
            found.append(suite.neighbour(number))
    return found


def wrong(verdict: Verdict, wanted: tuple | None) -> bool:
    """Whether a verdict is not what it must be."""
    if wanted is None:
        return verdict.solved or verdict.reward is None
    return (verdict.status, verdict.passed) != wanted


def leaks(runs: int, workers: int) -> dict:
    """Grades a mixture; returns what was wrong and what was there before and after."""
    suite.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="rlvr-proof-") as folder:
        # Of its own: what others put into the shared one is none of ours.
        before_folder, tempfile.tempdir = tempfile.tempdir, folder
        try:
            return _leaks(runs, workers)
        finally:
            tempfile.tempdir = before_folder


def _leaks(runs, workers):
    # What the interpreter itself opens once, such as the pool's first lock.
    suite.remains()
    before, start = suite.remains(), time.monotonic()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statuses: collections.Counter = collections.Counter()
    failures = []
    with envs.make_verifier("code", workers=workers, limits=suite.LIMITS) as verifier:
        todo = mixture(runs)
        for first in range(0, runs, BATCH):
            pairs, wanted = zip(*todo[first : first + BATCH], strict=True)
            verdicts = verifier.verify(pairs)
            statuses.update(verdict.status for verdict in verdicts)
            for pair, verdict, want in zip(pairs, verdicts, wanted, strict=True):
                if wrong(verdict, want):
                    failures.append([pair[1], want, dataclasses.asdict(verdict)])
        replaced = verifier.describe()["containers_replaced"]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    return {
        "runs": runs,
        "seconds": round(time.monotonic() - start, 1),
        "statuses": dict(statuses),
        "containers_replaced": replaced,
        "wrong": failures,
        "before": before,
        "after": suite.remains(),
        "grown_megabytes": grown >> 10,
    }


def concurrency(programs: int, rounds: int, levels: tuple[int, ...] = (1, 64)) -> dict:
    """Grades the same programs at each level, several times; returns what differed.

    Programs that end by elapsed time are left out: they would take it each time.
    """
    attacks = [
        (theme, attack)
        for theme, attack in suite.all_attacks()
        if len(attack.statuses.split()) == 1 and attack.name not in SLEEPERS
    ]
    pairs = []
    for number in range(programs):
        theme, attack = attacks[number * 11 % len(attacks)]
        hostile = suite.pair(attack, theme, str(number))
        pairs.append(hostile if number % 3 == 0 else suite.neighbour(number)[0])
    seen, seconds = [], {}
    for _ in range(rounds):
        for level in levels:
            start = time.monotonic()
            settings = {"workers": level, "limits": PATIENT, "cache_size": 0}
            with envs.make_verifier("code", **settings) as verifier:
                seen.append(verifier.verify(pairs))
            seconds.setdefault(level, []).append(round(time.monotonic() - start, 1))
    differing = [
        [pairs[i][1], sorted({f"{v.status} {v.passed} {v.feedback}" for v in verdicts})]
        for i, verdicts in enumerate(zip(*seen, strict=True))
        if len(set(verdicts)) > 1
    ]
    statuses = collections.Counter(verdict.status for verdict in seen[0])
    return {
        "programs": programs,
        "rounds": rounds,
        "seconds": seconds,
        "statuses": dict(statuses),
        "differing": differing,
    }


SLEEPERS = ("sleep", "lock", "stream: sleeps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proof", choices=("leaks", "concurrency"))
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=300)
    options = parser.parse_args()
    if options.proof == "leaks":
        found = leaks(options.runs, options.workers)
        failed = bool(found["wrong"]) or found["before"] != found["after"]
    else:
        found = concurrency(options.programs, options.rounds)
        failed = bool(found["differing"])
    json.dump(found, sys.stdout)
    sys.exit(failed)


if __name__ == "__main__":
    main()
