"""The same verdicts at concurrency 1 and 64, five times over.

    python -m tests.benchmarks.concurrency [--rounds=5] [--workers=64]

Every attack of the suite with a right neighbour. Exits with 1 at the first difference.
"""

import argparse
import sys

from rlvr_jax import envs
from tests.envs import suite


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=64)
    options = parser.parse_args()
    pairs = []
    for number, (source, _) in enumerate(suite.ATTACKS.values()):
        pairs += [(suite.TASK, source), (suite.TASK, suite.good(number))]
    first = None
    for round_number in range(options.rounds):
        for workers in (1, options.workers):
            with envs.make_verifier(
                "code", workers=workers, limits=suite.LIMITS
            ) as verifier:
                verdicts = verifier.verify(pairs)
            first = first or verdicts
            for (_, source), one, other in zip(pairs, first, verdicts, strict=True):
                if one != other:
                    print(f"round {round_number}, {workers} workers: {one} != {other}")
                    print(source)
                    return 1
            print(
                f"round {round_number}, {workers} workers: {len(pairs)} equal verdicts"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
