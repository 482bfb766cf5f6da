"""Interconnect against compute of a train step on 8 to 256 chips, on paper.

    pip install libtpu
    python -m tests.benchmarks.scaling [--chip v5e] [--model qwen3-4b] [--tokens 7168]

No chip is needed. The gradient program is compiled for each slice with fsdp over all
chips, and so is the program that brings the weights to the sampler. With `tensor` 1 all
that is sent is weights and their gradients, which do not depend on the rows: rows of
256 tokens are compiled, a row of `--tokens` per chip is what compute is counted for.
"""

import argparse
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp

from rlvr_jax import models, packing, sharding
from rlvr_jax.capacity.collectives import by_kind, collectives
from rlvr_jax.capacity.topologies import Topology, load_topology
from rlvr_jax.capacity.work import training_work
from rlvr_jax.config import ObjectiveSection, OptimizerSection
from rlvr_jax.sampling.programs import Programs
from rlvr_jax.training.step import TrainStep

SLICES = {
    2: ("2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
    3: ("2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
}
SHORT = 256  # tokens of the rows that are compiled


def sent(lowered: jax.stages.Lowered, devices: int) -> dict[str, int]:
    """Bytes that a device receives in one run, by kind."""
    found, unknown = collectives(lowered.compile().as_text(), devices)
    assert not unknown, unknown
    return {kind: row["bytes"] for kind, row in by_kind(found).items()}


def measure(model: models.ModelConfig, topology: Topology, tokens: int) -> None:
    """Prints one row of the table."""
    count = len(topology.devices)
    mesh = sharding.make_mesh((1, count, 1), devices=topology.devices)
    decoder = models.Decoder(model, dtype=jnp.bfloat16)
    step = TrainStep(
        decoder,
        objective=ObjectiveSection(),
        optimizer=OptimizerSection(),
        num_steps=1,
        head_chunk=SHORT,
        mesh=mesh,
    )
    rows = packing.empty_batch(count, row_length=SHORT, target_length=SHORT)
    by_program = {
        "gradients": sent(step.lower(rows, 1.0)["accumulate"], count),
        "weights": sent(
            Programs(decoder, mesh=mesh).unstack.lower(step.state_shapes().params),
            count,
        ),
    }
    gradients, weights = (sum(kinds.values()) for kinds in by_program.values())
    chip = topology.chip
    flops = training_work(
        model, rows=1, row_length=tokens, target_length=tokens, remat=True
    ).flops
    compute, links = flops / chip.flops, gradients / chip.link_bandwidth
    print(
        f"| {topology.name} | {count} | {gradients / 1e9:.1f} | {compute:.2f} |"
        f" {links:.2f} | {tokens * links / compute:.0f} | {weights / 1e9:.1f} |"
        f" {weights / chip.link_bandwidth:.2f} |"
    )
    for name, kinds in by_program.items():
        print(f"<!-- {topology.name} {name}: {kinds} -->", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", default="v5e")
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--tokens", type=int, default=7168)
    parser.add_argument("--slices", nargs="*")
    options = parser.parse_args()
    model = models.named_config(options.model)
    print(
        "| slice | chips | sent per micro-batch, GB | compute, s | links, s | tokens"
        " per chip where links = compute | weights to the sampler, GB | links, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    first = load_topology(f"{options.chip}:2x2" + "x1" * (options.chip == "v5p"))
    for size in options.slices or SLICES[first.chip.dimensions]:
        topology = load_topology(f"{options.chip}:{size}")
        measure(model, topology, options.tokens)


if __name__ == "__main__":
    main()
