"""AdamW with a schedule that counts training steps, not updates."""

from typing import Any

import jax
import optax

from rlvr_jax.config import OptimizerSection


def make_optimizer(section: OptimizerSection) -> optax.GradientTransformation:
    """Clip by global norm, Adam, decay of matrices; the learning rate comes later.

    Its updates are multiplied by `-learning_rate(step)` in the train step, so that a
    step without any update still advances the schedule.
    """
    parts = []
    if section.clip_norm:
        parts.append(optax.clip_by_global_norm(section.clip_norm))
    parts.append(optax.scale_by_adam(section.b1, section.b2, section.epsilon))
    if section.weight_decay:
        # Norms and biases are vectors, or stacks of vectors over layers.
        parts.append(optax.add_decayed_weights(section.weight_decay, mask=matrices))
    return optax.chain(*parts)


def learning_rate(section: OptimizerSection, num_steps: int) -> optax.Schedule:
    """The schedule: a linear warm-up, then constant, linear or cosine to 0."""
    peak, warmup = section.learning_rate, section.warmup_steps
    rest = max(num_steps - warmup, 1)
    after = {
        "constant": optax.constant_schedule(peak),
        "linear": optax.linear_schedule(peak, 0.0, rest),
        "cosine": optax.cosine_decay_schedule(peak, rest),
    }[section.schedule]
    if not warmup:
        return after
    # The first step already moves: step 0 has 1 / warmup of the peak.
    rise = optax.linear_schedule(peak / warmup, peak, max(warmup - 1, 1))
    return optax.join_schedules([rise, after], [warmup])


def optimizer_shardings(
    optimizer: optax.GradientTransformation, params: Any, places: Any, rest: Any
) -> Any:
    """Where the optimizer's arrays lie: moments with their parameters.

    Args:
        optimizer: from `make_optimizer`.
        params: parameters, or their shapes.
        places: a sharding for each of them.
        rest: sharding of what belongs to no parameter, as a count.
    """
    state = jax.eval_shape(optimizer.init, params)
    return optax.tree.map_params(
        optimizer,
        lambda _, place: place,
        state,
        places,
        transform_non_params=lambda _: rest,
    )


def matrices(params: dict) -> dict:
    """For each parameter, or its shape, whether it is a matrix or a stack of them."""

    def is_matrix(path: tuple, array: jax.Array) -> bool:
        stacked = path[0].key == "layers"
        return array.ndim - stacked >= 2

    return jax.tree_util.tree_map_with_path(is_matrix, params)
