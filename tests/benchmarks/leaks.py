"""Ten thousand programs, a third of them hostile: what stays behind.

    python -m tests.benchmarks.leaks [--runs=10000] [--workers=2]

Two of three programs are right, the third is an attack of the suite (those that end by
a time limit only in the first round, for they take seconds). Exits with 1 if a right
program was not passed, an attack was, or a process, descriptor, control group or
temporary file is there at the end that was not there before.
"""

import argparse
import collections
import pathlib
import sys
import tempfile
import time

from rlvr_jax import envs
from tests.envs import suite


def pairs_of(runs: int) -> list[tuple[object, str]]:
    """The programs, every one of another text: equal ones would be run once."""
    quick = [n for n, (_, status) in suite.ATTACKS.items() if status != "timeout"]
    slow = [n for n in suite.ATTACKS if n not in quick]
    names = slow + quick
    pairs = []
    for number in range(runs):
        if number % 3 != 2:
            pairs.append((suite.TASK, suite.good(number)))
            continue
        turn = number // 3
        name = names[turn] if turn < len(names) else quick[turn % len(quick)]
        pairs.append((suite.TASK, f"{suite.ATTACKS[name][0]}\n# {number}"))
    return pairs


def traces() -> set[str]:
    folder = pathlib.Path(tempfile.gettempdir())
    return suite.traces() | {str(path) for path in folder.glob("rlvr-*")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    pairs, before, start = pairs_of(options.runs), traces(), time.perf_counter()
    statuses: list[collections.Counter] = [collections.Counter(), collections.Counter()]
    with envs.make_verifier(
        "code", workers=options.workers, limits=suite.LIMITS
    ) as verifier:
        for at in range(0, len(pairs), 1000):
            verdicts = verifier.verify(pairs[at : at + 1000])
            for number, verdict in enumerate(verdicts, start=at):
                statuses[number % 3 == 2][verdict.status] += 1
            print(f"{at + len(verdicts)} programs", file=sys.stderr)
        replaced = verifier.describe()["containers_replaced"]
    seconds, left = time.perf_counter() - start, sorted(traces() - before)
    print(f"{options.runs} programs in {seconds:.0f} s, {replaced} containers replaced")
    print(f"right:   {dict(statuses[0])}")
    print(f"hostile: {dict(statuses[1])}")
    print(f"left behind: {left or 'nothing'}")
    wrong = set(statuses[0]) != {"passed"} or "passed" in statuses[1]
    return int(bool(left) or wrong)


if __name__ == "__main__":
    sys.exit(main())
