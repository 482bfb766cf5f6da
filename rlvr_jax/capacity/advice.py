"""What to change when a step does not fit."""

from rlvr_jax.capacity.memory import Phase
from rlvr_jax.capacity.plan import Plan


def advice(plan: Plan, worst: Phase) -> list[str]:
    """Fields to change and values to try, the likeliest first.

    Args:
        plan: that does not fit.
        worst: the phase that needs most.

    Returns:
        At least one line, each with a field and a value.
    """
    training = worst.program in ("accumulate", "apply")
    lines = _training(plan) if training else _sampling(plan, worst)
    data, fsdp, _ = plan.mesh_sizes
    if data > 1 and plan.model.width % (data * fsdp) == 0:
        lines.append(
            f"mesh.data 1 and mesh.fsdp {data * fsdp}: weights and optimizer in"
            f" {data * fsdp} parts instead of {fsdp}"
        )
    states = worst.params + worst.frozen + worst.optimizer
    states += worst.gradients + worst.reference
    if states > worst.peak / 2 or not lines:
        lines.append(
            f"a larger slice: weights and optimizer take {states / 2**30:.1f} GiB of a"
            " device; twice the chips halve that"
        )
    return lines


def _training(plan: Plan) -> list[str]:
    config, lines = plan.config, []
    _, fsdp, tensor = plan.mesh_sizes
    groups = plan.mesh_sizes[0] * fsdp
    if not config.model.remat:
        lines.append("model.remat True: layers are computed again, not kept")
    rows = config.update.rows
    if rows > groups:
        fewer = max(groups, rows // 2 // groups * groups)
        lines.append(f"update.rows {fewer}: a smaller micro-batch; now {rows}")
    if config.update.head_chunk > 128:
        lines.append(
            f"update.head_chunk {config.update.head_chunk // 2}: fewer logits at a"
            f" time; now {config.update.head_chunk}"
        )
    turns = config.rollout.layout.num_turns
    shortest = max(config.longest_path(turns), config.rollout.max_response_tokens)
    if config.update.row_length > shortest:
        lines.append(
            f"update.row_length {shortest}: shorter rows; now"
            f" {config.update.row_length}"
        )
    larger = _larger_tensor(plan)
    if larger:
        lines.append(
            f"mesh.tensor {larger} and mesh.fsdp {fsdp * tensor // larger}: heads,"
            f" MLP and vocabulary in {larger} parts; now {tensor}"
        )
    return lines


def _sampling(plan: Plan, worst: Phase) -> list[str]:
    lines = []
    _, fsdp, tensor = plan.mesh_sizes
    size = plan.buckets.contexts[-1]
    if size > plan.sampling_groups:
        half = max(plan.sampling_groups, size // 2 // plan.sampling_groups)
        half = half // plan.sampling_groups * plan.sampling_groups
        lines.append(f"sampler.contexts ({half},): smaller waves; now {size}")
    if worst.caches > worst.peak / 4 and plan.config.rollout.prompts > 1:
        prompts = plan.config.rollout.prompts
        lines.append(f"rollout.prompts {prompts // 2}: half the caches; now {prompts}")
    larger = _larger_tensor(plan)
    if larger:
        lines.append(
            f"mesh.tensor {larger} and mesh.fsdp {fsdp * tensor // larger}: the"
            f" sampler's weights in {larger} parts; now {tensor}"
        )
    return lines


def _larger_tensor(plan: Plan) -> int | None:
    """The next size of `tensor` that divides everything, None if there is none."""
    _, fsdp, tensor = plan.mesh_sizes
    model = plan.model
    for size in range(2 * tensor, plan.local_devices + 1, tensor):
        whole = (model.num_heads, model.vocab_size, model.mlp_width)
        if (
            (fsdp * tensor) % size == 0
            and plan.local_devices % size == 0
            and all(number % size == 0 for number in whole)
            and (model.num_kv_heads % size == 0 or size % model.num_kv_heads == 0)
        ):
            return size
    return None
