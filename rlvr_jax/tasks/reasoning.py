"""Tasks of the generators of reasoning_gym that have one right answer, an integer.

The package's own scorers give credit to answers that merely contain the right one, so
none of them is used: these tasks are graded as math tasks, exactly. Generators whose
answers are not unique (equations with many solutions, sequences to continue), are
rounded (so are quotients in some of basic_arithmetic), or are no integers are not
offered.
"""

import hashlib
from collections.abc import Sequence

from rlvr_jax.tasks.formats.answers import BOX_INSTRUCTION
from rlvr_jax.tasks.records import Task

PREFIX = "reasoning_gym:"
GENERATORS = (
    "aiw",
    "binary_alternation",
    "chain_sum",
    "circuit_logic",
    "count_bits",
    "count_primes",
    "gcd",
    "largest_island",
    "lcm",
    "leg_counting",
    "letter_counting",
    "maze",
    "products",
    "rectangle_count",
    "rotten_oranges",
    "self_reference",
    "simple_geometry",
)


def generate_reasoning(names: Sequence[str], *, seed: int, count: int) -> list[Task]:
    """Tasks of several generators in turn; equal arguments give equal tasks.

    Two of them may be equal, and two seeds may share some: small sums are few.

    Args:
        names: of `GENERATORS`, at least one.
        seed: of all of them.
        count: number of tasks, >= 0.

    Raises:
        ValueError: a name is no generator with a unique integer as answer.
        ImportError: reasoning_gym is not installed.
    """
    unknown = [name for name in names if name not in GENERATORS]
    if unknown or not names:
        raise ValueError(
            f"reasoning_gym: wanted generators out of {', '.join(GENERATORS)}; got"
            f" {unknown or 'none'}"
        )
    try:
        import reasoning_gym
    except ImportError as error:
        raise ImportError(
            "tasks of reasoning_gym need that package, which is not installed: run"
            " pip install 'rlvr_jax[reasoning]'"
        ) from error
    tasks = []
    for index in range(count):
        name = names[index % len(names)]
        # Neighbouring seeds of the package overlap: its items are seeded by seed + i.
        digest = hashlib.sha256(f"{seed}/{index}".encode()).hexdigest()
        row = reasoning_gym.create_dataset(name, size=1, seed=int(digest[:8], 16))[0]
        tasks.append(
            Task(
                id=f"{PREFIX}{name}/{seed}/{index}",
                kind="math",
                prompt=f"{row['question'].strip()}\n\n{BOX_INSTRUCTION}",
                answer=str(row["answer"]),
                metadata={"generator": name},
            )
        )
    return tasks
