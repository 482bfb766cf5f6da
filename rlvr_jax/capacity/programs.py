"""The programs of a step: lowered, compiled, measured."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from rlvr_jax import models, packing, sampling, sharding
from rlvr_jax.capacity import work
from rlvr_jax.capacity.collectives import by_kind, collectives
from rlvr_jax.capacity.plan import Plan
from rlvr_jax.capacity.topologies import Topology, host_topology
from rlvr_jax.training.policy import Policy, make_policy, start_shapes
from rlvr_jax.training.step import TrainStep

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclasses.dataclass(frozen=True)
class Program:
    """One compiled program; sizes are bytes on one device.

    Attributes:
        name: `unstack`, `prefill`, `decode`, `accumulate` or `apply`.
        compiled_for: name of the topology, see `topologies.host_topology`.
        runs: in a step at its limits; of decoding, tokens that are sampled one after
            the other.
        flops, model_flops, traffic: of all runs together, on one device, see
            `work.Work`.
        arguments, results, aliased, temporaries, code: of the compiled program;
            `aliased` results take the place of arguments.
        needed: what the compiler says it would need, if that is more than there is; 0
            if the program was compiled.
        collectives: kind -> count and bytes that a device receives, in one run; of
            decoding, for one token.
        unknown_loops: loops whose turns depend on data: one turn of each counts.
        compiler_flops, compiler_traffic: the compiler's own counts, loop bodies once.
        seconds: that lowering and compiling took.
        processor_seconds: that they took of all cores together.
    """

    name: str
    compiled_for: str
    runs: int
    flops: float
    model_flops: float
    traffic: float
    arguments: int = 0
    results: int = 0
    aliased: int = 0
    temporaries: int = 0
    code: int = 0
    needed: int = 0
    collectives: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    unknown_loops: int = 0
    compiler_flops: float = 0.0
    compiler_traffic: float = 0.0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def peak(self) -> int:
        """Bytes while it runs, its arguments and results among them."""
        if self.needed:
            return self.needed
        return self.arguments + self.results - self.aliased + self.temporaries

    @property
    def sent(self) -> int:
        """Bytes that a device receives in all runs."""
        return self.runs * sum(row["bytes"] for row in self.collectives.values())


def compile_programs(plan: Plan) -> Iterator[Program]:
    """Compiles the programs of a step one after the other.

    Args:
        plan: from `make_plan`.

    Yields:
        The programs, training first.
    """
    config, step = plan.config, make_train_step(plan)
    rows = packing.empty_batch(
        config.update.rows,
        row_length=config.update.row_length,
        target_length=config.update.target_length,
    )
    totals = step_work(plan)
    start, processor = time.perf_counter(), time.process_time()
    host = host_topology(plan.topology)
    policy = make_plan_policy(plan)
    params = policy.whole(step.state_shapes().params, policy.frozen)
    groups: list[Callable[[], dict[str, jax.stages.Lowered]]] = [
        lambda: step.lower(rows, config.rollout.temperature),
        lambda: sampling.lower(
            _decoder(plan),
            params,
            mesh=_mesh(plan),
            host_mesh=None if host is plan.topology else _host_mesh(plan, host),
            buckets=plan.buckets,
            num_samples=plan.branches,
            max_new_tokens=config.rollout.max_response_tokens,
        ),
    ]
    for lower in groups:
        lowered = lower()
        for name in list(lowered):
            local = name in ("prefill", "decode")
            devices = plan.local_devices if local else len(plan.topology.devices)
            program = measure(
                name,
                lowered.pop(name),
                compiled_for=host.name if local else plan.topology.name,
                runs=totals[name][0],
                work_done=totals[name][1],
                num_devices=devices,
            )
            yield dataclasses.replace(
                program,
                seconds=time.perf_counter() - start,
                processor_seconds=time.process_time() - processor,
            )
            start, processor = time.perf_counter(), time.process_time()


def make_train_step(plan: Plan) -> TrainStep:
    """The train step of the run, on the mesh of the topology."""
    config = plan.config
    return TrainStep(
        _decoder(plan),
        objective=config.objective,
        optimizer=config.optimizer,
        num_steps=config.steps,
        head_chunk=config.update.head_chunk,
        mesh=_mesh(plan),
        policy=make_plan_policy(plan),
    )


def make_plan_policy(plan: Plan) -> Policy:
    """What the run trains; what it does not are shapes."""
    start = start_shapes(plan.config, plan.model, _mesh(plan))
    return make_policy(plan.config, plan.model, start)


def _decoder(plan: Plan) -> models.Decoder:
    section = plan.config.model
    return models.Decoder(
        plan.model,
        dtype=jnp.dtype(section.dtype),
        remat=section.remat,
        unroll=section.unroll,
    )


def _mesh(plan: Plan) -> jax.sharding.Mesh:
    return sharding.make_mesh(plan.mesh_sizes, devices=plan.topology.devices)


def _host_mesh(plan: Plan, host: Topology) -> jax.sharding.Mesh:
    """One host's devices, in the mesh that a process samples on."""
    sizes = (plan.sampling_groups, 1, plan.mesh_sizes[2])
    return sharding.make_mesh(sizes, devices=host.devices)


def measure(
    name: str,
    lowered: jax.stages.Lowered,
    *,
    compiled_for: str,
    runs: int,
    work_done: work.Work,
    num_devices: int,
) -> Program:
    """Compiles a program and reads what the compiler says about it.

    Args:
        name: of the program.
        lowered: to be compiled.
        compiled_for: name of its topology.
        runs: in a step.
        work_done: by all runs, on all devices together.
        num_devices: of the program.

    Raises:
        jax.errors.JaxRuntimeError: it cannot be compiled, but not for lack of memory.
    """
    program = Program(
        name,
        compiled_for,
        runs,
        flops=work_done.flops / num_devices,
        model_flops=work_done.model_flops / num_devices,
        traffic=work_done.traffic / num_devices,
    )
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        needed = needed_bytes(str(error))
        if needed is None:
            raise
        return dataclasses.replace(program, needed=needed)
    memory = compiled.memory_analysis()
    cost = compiled.cost_analysis()
    found, unknown = collectives(compiled.as_text(), num_devices)
    return dataclasses.replace(
        program,
        arguments=memory.argument_size_in_bytes,
        results=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        collectives=by_kind(found),
        unknown_loops=len(unknown),
        compiler_flops=cost.get("flops", 0.0),
        compiler_traffic=cost.get("bytes accessed", 0.0),
    )


def needed_bytes(message: str) -> int | None:
    """Bytes that a program would use, from the compiler's message that it is too much.

    Args:
        message: of libtpu; its "temporaries" are arguments and results too.

    Returns:
        None if the message is about something else.

    Example:
        >>> needed_bytes("memory required for ... (17.50G) exceeds available HBM (1G).")
        18790481920
    """
    found = re.search(r"\(([\d.]+)([KMGT]?)\) exceeds available HBM", message)
    return round(float(found[1]) * UNITS[found[2]]) if found else None


def step_work(plan: Plan) -> dict[str, tuple[int, work.Work]]:
    """Per program, runs of a step at its limits and their work on all its devices."""
    config, model = plan.config, plan.model
    update, itemsize = config.update, work.dtype_size(config.model.dtype)
    data, fsdp, _ = plan.mesh_sizes
    shapes = make_plan_policy(plan).shapes() if config.lora.rank else None
    adapters = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    passes = work.training_work(
        model,
        rows=update.rows,
        row_length=update.row_length,
        target_length=update.target_length,
        remat=config.model.remat,
        itemsize=itemsize,
        copies=data,
        groups=data * fsdp,
        adapters=adapters,
    )
    trained = adapters or models.parameter_count(model)
    stored = itemsize if adapters else 4
    weights = models.parameter_count(model) * (stored + itemsize)
    moved = work.Work(0.0, 0.0, float(weights * data))
    prefills, prefill = _prefills(plan, itemsize)
    tokens, decode = _decodes(plan, itemsize)
    return {
        "accumulate": (plan.micro_batches, passes.times(plan.micro_batches)),
        "apply": (
            plan.updates,
            work.apply_work(trained, copies=data).times(plan.updates),
        ),
        "unstack": (1, moved),
        "prefill": (prefills, prefill),
        "decode": (tokens, decode),
    }


def _prefills(plan: Plan, itemsize: int) -> tuple[int, work.Work]:
    """Chunks that are read: prompts on turn 0, then feedback and one token more."""
    config, chunk = plan.config, plan.buckets.chunk
    read = [config.tasks.max_prompt_tokens] + [
        1 + config.rollout.max_feedback_tokens
    ] * (len(plan.waves) - 1)
    runs = sum(
        waves * -(-tokens // chunk)
        for waves, tokens in zip(plan.waves, read, strict=True)
    )
    one = work.prefill_work(
        plan.model,
        contexts=plan.buckets.contexts[-1],
        chunk=chunk,
        context_length=plan.buckets.context_lengths[-1],
        itemsize=itemsize,
        groups=plan.sampling_groups,
    )
    return runs, one.times(runs)


def _decodes(plan: Plan, itemsize: int) -> tuple[int, work.Work]:
    """Tokens sampled one after the other, in caches that double as they fill."""
    limit, tokens, total = plan.response_limit, 0, work.Work(0.0, 0.0, 0.0)
    for waves, branches in zip(plan.waves, plan.config.rollout.branching, strict=True):
        start = 0
        for room in plan.buckets.new_lengths(limit):
            steps = min(room, limit) - start
            start += steps
            one = work.decode_work(
                plan.model,
                contexts=plan.buckets.contexts[-1],
                branches=branches,
                context_length=plan.buckets.context_lengths[-1],
                new_length=room,
                itemsize=itemsize,
                groups=plan.sampling_groups,
            )
            tokens += waves * steps
            total = total.plus(one.times(waves * steps))
    return tokens, total
