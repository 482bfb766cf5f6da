"""How fast the credit kernels are, next to one copy of the arrays they read.

    python tests/benchmarks/credit.py [--nodes 1000000] [--rounds 15]

All in one process, jitted, float32, on a CPU. Each round calls every kernel once, so
that whatever else the machine does meets all of them; the table shows medians. A ratio
above its bound is marked and the exit status is 1.
"""

import argparse
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

LAYOUT = TreeLayout(branching=(8, 8, 8))
TURNS = LAYOUT.num_turns
BACKUP, GROUP, GENERAL = 6.0, 12.0, 40.0  # times one copy
WALK, LOOP = 100.0, 5.0  # times faster
LARGE = 16  # factor of the linearity check
LINEAR = 1.5  # time per node at LARGE times the nodes, over that at the nodes


@dataclasses.dataclass(frozen=True)
class Arrays:
    """A batch of full trees: a Python walk then visits as many nodes as a kernel."""

    rewards: jax.Array
    parents: jax.Array
    mask: jax.Array


def make_arrays(num_nodes: int) -> Arrays:
    """At least one tree; values in steps of 1/8."""
    generator = np.random.default_rng(0)
    shape = (max(1, num_nodes // LAYOUT.num_nodes), LAYOUT.num_nodes)
    rewards = generator.integers(0, 9, shape) / 8
    parents = np.tile(LAYOUT.parents, (shape[0], 1))
    return Arrays(
        jnp.asarray(rewards, jnp.float32),
        jnp.asarray(parents),
        jnp.ones(shape, bool),
    )


def copy(*arrays: jax.Array) -> list[jax.Array]:
    """One copy of the arrays."""
    return [jnp.copy(array) for array in arrays]


# name, bound, rule(rewards, parents, mask)
RULES: list[tuple[str, float | None, Callable]] = [
    ("mars", BACKUP, lambda *a: credit.mars(*a, num_turns=TURNS)),
    ("mers", BACKUP, lambda *a: credit.mers(*a, num_turns=TURNS)),
    ("trajectory", BACKUP, lambda *a: credit.trajectory(*a, num_turns=TURNS)),
    ("grpo (siblings)", GROUP, credit.grpo),
    ("reapo (pooled)", GROUP, credit.reapo),
    ("rloo", GROUP, credit.rloo),
    ("maxrl", GROUP, credit.maxrl),
    (
        "murphy, mers",
        None,
        lambda *a: credit.murphy(*a, num_turns=TURNS, backup="mers"),
    ),
    ("cal_grpo", None, lambda *a: credit.cal_grpo(*a, num_turns=TURNS)),
    (
        "multi_attempt_grpo",
        None,
        lambda *a: credit.multi_attempt_grpo(*a, num_turns=TURNS),
    ),
    (
        "prune_inter, budget 2",
        None,
        lambda *a: credit.prune_inter(*a, num_turns=TURNS, budget=2),
    ),
    (
        "prune_intra, budget 4",
        None,
        lambda *a: credit.prune_intra(*a, num_turns=TURNS, budget=4),
    ),
]
# Sorting a general forest takes seconds at full size and has no bound: left out.
GENERAL_RULES = [rule for rule in RULES if not rule[0].startswith("prune")]


def on_layout(rule: Callable) -> Callable:
    """The rule on static slots, jitted."""
    return jax.jit(lambda rewards, mask: rule(rewards, LAYOUT, mask))


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each call over interleaved rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        jax.block_until_ready(call())
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def kernel_calls(arrays: Arrays) -> dict[str, Callable[[], object]]:
    """Every kernel on a layout and on a parents array, and the copies."""
    read = arrays.rewards, arrays.mask
    read_all = arrays.rewards, arrays.parents, arrays.mask
    copied = jax.jit(copy)
    calls = {
        "copy, layout": functools.partial(copied, *read),
        "copy, parents": functools.partial(copied, *read_all),
    }
    for name, _, rule in RULES:
        calls[f"{name}, layout"] = functools.partial(on_layout(rule), *read)
    for name, _, rule in GENERAL_RULES:
        calls[f"{name}, parents"] = functools.partial(jax.jit(rule), *read_all)
    return calls


def mars_walk(rewards: list, children: list, mask: list) -> list[float]:
    """MaRS of one tree as a recursive walk in Python."""
    returns = [0.0] * len(rewards)

    def visit(node: int) -> float:
        best = rewards[node]
        for child in children[node]:
            if mask[child]:
                best = max(best, visit(child))
        returns[node] = best
        return best

    for root in range(LAYOUT.branching[0]):
        if mask[root]:
            visit(root)
    return returns


def walk(arrays: Arrays) -> np.ndarray:
    """`mars_walk` of every tree."""
    children = [list(LAYOUT.children(slot)) for slot in range(LAYOUT.num_nodes)]
    rewards, mask = np.asarray(arrays.rewards), np.asarray(arrays.mask)
    return np.array(
        [
            mars_walk(r.tolist(), children, m.tolist())
            for r, m in zip(rewards, mask, strict=True)
        ],
        np.float32,
    )


def group_loop(arrays: Arrays) -> np.ndarray:
    """GRPO with one NumPy call per group, as a trainer without trees does."""
    rewards, mask = np.asarray(arrays.rewards), np.asarray(arrays.mask)
    advantages = np.zeros_like(rewards)
    for row in range(len(rewards)):
        for start in range(0, LAYOUT.num_nodes, 8):
            there = start + np.flatnonzero(mask[row, start : start + 8])
            group = rewards[row, there]
            if len(group) > 1 and np.ptp(group) > 1e-6:
                scale = group.std(ddof=1) + 1e-6
                advantages[row, there] = (group - group.mean()) / scale
    return advantages


def seconds_once(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


class Table:
    """Prints rows with their bound and remembers whether all were met."""

    def __init__(self) -> None:
        self.met = True
        print(f"{'what':36} {'ms':>10} {'ratio':>9}  bound")

    def row(
        self, name: str, seconds: float, ratio: float | None, bound: str, met: bool
    ) -> None:
        """One line; `met` False marks it."""
        shown = "" if ratio is None else f"{ratio:9.2f}"
        mark = "" if met else "  MISSED"
        print(f"{name:36} {seconds * 1e3:10.2f} {shown:>9}  {bound}{mark}", flush=True)
        self.met &= met

    def at_most(
        self, name: str, seconds: float, ratio: float, bound: float | None
    ) -> None:
        """A ratio that may not exceed its bound, if it has one."""
        shown = "" if bound is None else f"<= {bound:g}"
        self.row(name, seconds, ratio, shown, bound is None or ratio <= bound)


def compare_with_copies(table: Table, seconds: dict[str, float]) -> None:
    """Every kernel over the copy of what it reads."""
    for kind, rules in (("layout", RULES), ("parents", GENERAL_RULES)):
        base = seconds[f"copy, {kind}"]
        table.row(f"copy, {kind}", base, 1.0, "", True)
        for name, bound, _ in rules:
            if kind == "parents":
                bound = GENERAL
            took = seconds[f"{name}, {kind}"]
            table.at_most(f"{name}, {kind}", took, took / base, bound)


def compare_with_python(
    table: Table, arrays: Arrays, seconds: dict[str, float]
) -> None:
    """The same results from Python, and how much longer they take."""
    for name, slow, rule, bound in (
        ("recursive walk, mars", walk, "mars", WALK),
        ("loop over groups, grpo", group_loop, "grpo (siblings)", LOOP),
    ):
        took, result = seconds_once(functools.partial(slow, arrays))
        kernel = on_layout({n: r for n, _, r in RULES}[rule])
        np.testing.assert_allclose(
            result, kernel(arrays.rewards, arrays.mask), rtol=1e-4, atol=1e-5
        )
        ratio = took / seconds[f"{rule}, layout"]
        table.row(name, took, ratio, f">= {bound:g}", ratio >= bound)


def compare_sizes(table: Table, num_nodes: int, rounds: int) -> None:
    """Time per node at 16 times the nodes over that at the nodes, in one run."""
    small, large = make_arrays(num_nodes), make_arrays(LARGE * num_nodes)
    for name, _, rule in RULES[:5]:
        kernel = on_layout(rule)
        took = medians(
            {
                "small": functools.partial(kernel, small.rewards, small.mask),
                "large": functools.partial(kernel, large.rewards, large.mask),
            },
            rounds,
        )
        per_node = took["large"] / took["small"] / LARGE
        label = f"{name}, layout, {LARGE}x nodes"
        table.at_most(label, took["large"], per_node, LINEAR)


def main() -> int:
    """Prints the table; 1 if a bound was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    arrays = make_arrays(options.nodes)
    print(
        f"jax {jax.__version__}, {os.cpu_count()} cores, branching {LAYOUT.branching},"
        f" {arrays.rewards.size} nodes, median of {options.rounds} rounds"
    )
    table = Table()
    seconds = medians(kernel_calls(arrays), options.rounds)
    compare_with_copies(table, seconds)
    compare_with_python(table, arrays, seconds)
    compare_sizes(table, options.nodes, max(3, options.rounds // 3))
    return 0 if table.met else 1


if __name__ == "__main__":
    sys.exit(main())
