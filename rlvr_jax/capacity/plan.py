"""What a step of a configuration does at its limits: rows, waves, programs, times.

At the limits every prompt, response and feedback is as long as allowed, and every node
is expanded.
"""

import dataclasses
import math

import numpy as np

from rlvr_jax import packing, sharding
from rlvr_jax.capacity.topologies import Topology
from rlvr_jax.config import Config
from rlvr_jax.models import ModelConfig
from rlvr_jax.sampling import Buckets, context_bytes
from rlvr_jax.tree import empty_tree

# Prompts that are packed to see how many share a row.
_SAMPLE = 8


@dataclasses.dataclass(frozen=True)
class Plan:
    """A configuration on a topology, checked, with the sizes of its programs.

    Attributes:
        config, model, topology: what was asked for.
        mesh_sizes: data, fsdp, tensor.
        micro_batches: runs of the gradient program in a step.
        updates: runs of the optimizer in a step.
        rows: packed rows of a step, without those that fill the last micro-batch.
        buckets: shapes of the sampler.
        prompts: of one process.
        waves: per turn, how many times the largest bucket is filled in one process.
    """

    config: Config
    model: ModelConfig
    topology: Topology
    mesh_sizes: tuple[int, int, int]
    micro_batches: int
    updates: int
    rows: int
    buckets: Buckets
    prompts: int
    waves: tuple[int, ...]

    @property
    def local_devices(self) -> int:
        """Devices of a process."""
        return len(self.topology.devices) // self.topology.num_processes

    @property
    def sampling_groups(self) -> int:
        """Groups of a process's devices that hold the sampler's weights once."""
        return self.local_devices // self.mesh_sizes[2]

    @property
    def branches(self) -> int:
        """G of the largest decoding program."""
        return max(self.config.rollout.branching)

    @property
    def response_limit(self) -> int:
        """Tokens of each attempt at the limits."""
        return response_limit(self.config)

    @property
    def cache_bytes(self) -> int:
        """All key/value caches that a device may hold at once, bytes."""
        rollout = self.config.rollout
        tokens = self.buckets.cache_tokens(
            rollout.branching, self.prompts, rollout.max_response_tokens
        )
        return self._on_device(tokens)

    def wave_bytes(self, *, branches: int) -> int:
        """Caches of one wave of the largest bucket on a device, bytes.

        Args:
            branches: of each context; 0 for the contexts' caches alone.
        """
        limit = self.config.rollout.max_response_tokens
        room = self.buckets.new_lengths(limit)[-1]
        tokens = self.buckets.context_lengths[-1] + branches * room
        return self._on_device(self.buckets.contexts[-1] * tokens)

    def _on_device(self, tokens: int) -> int:
        """Bytes on a device of the cache of `tokens` tokens of a process."""
        tensor = self.mesh_sizes[2]
        whole = context_bytes(self.model, tokens, self.config.model.dtype)
        split = self.model.num_kv_heads % tensor == 0
        return whole // (self.sampling_groups * (tensor if split else 1))


def make_plan(config: Config, model: ModelConfig, topology: Topology) -> Plan:
    """Checks that the mesh divides everything, and counts what a step does.

    Args:
        config: of a run.
        model: its shapes.
        topology: where it is to run.

    Raises:
        ValueError: a mesh that does not divide the devices, the model, the rows or the
            contexts; names the numbers and sizes that work.
    """
    count = len(topology.devices)
    sizes = sharding.resolve_sizes(
        config.mesh.sizes, count, num_processes=topology.num_processes
    )
    if math.prod(sizes) != count:
        raise ValueError(
            f"mesh (data, fsdp, tensor) {sizes} must use all {count} devices of"
            f" {topology.name}: set one of the sizes to -1"
        )
    sharding.check_model(
        sizes,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        vocab_size=model.vocab_size,
        width=model.width,
        mlp_width=model.mlp_width,
    )
    groups = sizes[0] * sizes[1]
    sharding.check_multiple(
        "update.rows", [config.update.rows], groups, "mesh.data x mesh.fsdp"
    )
    buckets = Buckets(
        contexts=config.sampler.contexts,
        context_lengths=config.context_lengths(),
        chunk=config.sampler.chunk,
    )
    local_groups = count // topology.num_processes // sizes[2]
    sharding.check_multiple(
        "sampler.contexts",
        buckets.contexts,
        local_groups,
        "a process's devices / mesh.tensor",
    )
    rows, updates, micro_batches = _training_runs(config)
    prompts = -(-config.rollout.prompts // topology.num_processes)
    contexts = [
        prompts * math.prod(config.rollout.branching[:t])
        for t in range(len(config.rollout.branching))
    ]
    return Plan(
        config=config,
        model=model,
        topology=topology,
        mesh_sizes=sizes,
        micro_batches=micro_batches,
        updates=updates,
        rows=rows,
        buckets=buckets,
        prompts=prompts,
        waves=tuple(-(-number // buckets.contexts[-1]) for number in contexts),
    )


def _training_runs(config: Config) -> tuple[int, int, int]:
    """(rows of a step, updates, micro-batches of all updates)."""
    update, prompts = config.update, config.rollout.prompts
    sample = min(_SAMPLE, prompts)
    packed = rows_of(config, sample)
    parts = [len(part) for part in np.array_split(range(prompts), update.minibatches)]
    per_update = [-(-part * packed // sample) for part in parts]
    rows = update.epochs * sum(per_update)
    runs = update.epochs * sum(-(-part // update.rows) for part in per_update)
    return rows, update.epochs * update.minibatches, runs


def response_limit(config: Config) -> int:
    """Tokens of an attempt; those of a path that share a budget take even parts."""
    rollout = config.rollout
    if not rollout.budget:
        return rollout.max_response_tokens
    part = max(1, rollout.budget // rollout.layout.num_turns)
    return min(rollout.max_response_tokens, part)


def rows_of(config: Config, prompts: int) -> int:
    """Packed rows of `prompts` trees in which everything is as long as allowed."""
    rollout = config.rollout
    layout = rollout.layout
    tree = empty_tree(
        layout,
        num_prompts=prompts,
        prompt_length=config.tasks.max_prompt_tokens,
        response_length=rollout.max_response_tokens,
        feedback_length=rollout.max_feedback_tokens,
    )
    tree.prompt_lengths[:] = config.tasks.max_prompt_tokens
    tree.response_lengths[:] = response_limit(config)
    last = layout.turn_slice(layout.num_turns - 1)
    tree.feedback_lengths[:] = rollout.max_feedback_tokens
    tree.feedback_lengths[:, last] = 0
    ones = np.ones((prompts, layout.num_nodes), np.float32)
    batch = packing.pack(
        tree,
        advantages=ones,
        weights=ones,
        train_mask=ones > 0,
        row_length=config.update.row_length,
        target_length=config.update.target_length,
    )
    return batch.num_rows
