"""Compiles the credit kernels for TPU chips, on any host that has libtpu installed.

    pip install libtpu
    python tests/benchmarks/credit_tpu.py [--topology v5e:2x2] [--nodes 1000000]

No chip is needed. For each kernel on a static layout the table shows the bytes that the
compiled program reads and writes next to those of its arrays, and what is looked for
in it: a scatter, or a call of the host. The exit status is 1 if one is found. The last
line is the control: a forest in an array, where a scatter has to be found.
"""

import argparse
import functools
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")

import jax
import jax.numpy as jnp
from jax.experimental import topologies

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

LAYOUT = TreeLayout((8, 8, 8))
KERNELS = {
    "mars": functools.partial(credit.mars, num_turns=3),
    "mers": functools.partial(credit.mers, num_turns=3),
    "trajectory": functools.partial(credit.trajectory, num_turns=3),
    "calibrated_weights": functools.partial(credit.calibrated_weights, num_turns=3),
    "grpo": credit.grpo,
    "rloo": credit.rloo,
    "maxrl": credit.maxrl,
    "murphy": functools.partial(credit.murphy, num_turns=3),
    "reapo": credit.reapo,
    "cal_grpo": functools.partial(credit.cal_grpo, num_turns=3),
    "multi_attempt_grpo": functools.partial(credit.multi_attempt_grpo, num_turns=3),
    "prune_inter": functools.partial(credit.prune_inter, num_turns=3, budget=2),
    "prune_intra": functools.partial(credit.prune_intra, num_turns=3, budget=4),
}
FORBIDDEN = ("scatter(", "callback", "SendToHost", "outfeed")


def describe(name: str, compiled: jax.stages.Compiled) -> list[str]:
    """Prints one line of the table; returns what was found."""
    text = compiled.as_text()
    found = [word for word in FORBIDDEN if word in text]
    memory = compiled.memory_analysis()
    arrays = memory.argument_size_in_bytes + memory.output_size_in_bytes
    moved = compiled.cost_analysis()["bytes accessed"]
    print(
        f"| {name} | {arrays / 1e6:.1f} | {moved / 1e6:.1f} |"
        f" {' '.join(found).replace('(', '') or 'nothing'} |"
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topology", default="v5e:2x2")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    options = parser.parse_args()
    chips = topologies.get_topology_desc(
        platform="tpu", topology_name=options.topology
    ).devices
    sharding = jax.sharding.SingleDeviceSharding(chips[0])
    shape = (max(1, options.nodes // LAYOUT.num_nodes), LAYOUT.num_nodes)
    rewards = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
    parents = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding)
    mask = jax.ShapeDtypeStruct(shape, bool, sharding=sharding)
    print(f"{chips[0].device_kind}, {shape[0] * shape[1]} nodes")
    print("| kernel | arrays, MB | moved, MB | found |\n|---|---|---|---|")
    bad = False
    for name, kernel in KERNELS.items():
        run = jax.jit(lambda r, m, kernel=kernel: kernel(r, LAYOUT, m))
        bad |= bool(describe(name, run.lower(rewards, mask).compile()))
    control = jax.jit(functools.partial(credit.mars, num_turns=3))
    found = describe(
        "mars, parents array", control.lower(rewards, parents, mask).compile()
    )
    return int(bad or not found)


if __name__ == "__main__":
    sys.exit(main())
