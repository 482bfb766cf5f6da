"""What is on a device at once, phase by phase of a step."""

import dataclasses
import math
from typing import Any

import jax

from rlvr_jax.capacity.plan import Plan
from rlvr_jax.capacity.programs import Program


@dataclasses.dataclass(frozen=True)
class Phase:
    """Bytes on one device while a program runs.

    Attributes:
        program: its name.
        params, optimizer: what is trained in float32, moments and counts.
        frozen: the model below adapters.
        reference: parameters of the KL term's policy.
        gradients: float32 sums.
        sampler_weights: copy in the compute type, as the sampler holds it.
        caches: all key/value caches that may be alive.
        activations: everything else: temporaries and small arguments.
        code: of all programs; they stay loaded.
    """

    program: str
    params: int = 0
    frozen: int = 0
    optimizer: int = 0
    reference: int = 0
    gradients: int = 0
    sampler_weights: int = 0
    caches: int = 0
    activations: int = 0
    code: int = 0

    @property
    def peak(self) -> int:
        """The sum."""
        fields = dataclasses.fields(self)[1:]
        return sum(getattr(self, field.name) for field in fields)


def device_bytes(shapes: Any) -> int:
    """Bytes of one device's parts of arrays that have a sharding."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(shapes)
    )


def phases(
    plan: Plan,
    programs: dict[str, Program],
    *,
    params: int,
    optimizer: int,
    frozen: int = 0,
) -> list[Phase]:
    """The phases of a step in their order.

    The sampler's copy and its caches are gone when training begins; gradients are
    there only while training. Where the compiler refused a program, what it says it
    would need stands for the program's own arguments and temporaries.

    Args:
        plan: of the step.
        programs: by name.
        params: what is trained, bytes per device.
        optimizer: moments and counts, bytes per device.
        frozen: what is not, bytes per device.
    """
    code = sum(program.code for program in programs.values())
    reference = params if plan.config.objective.kl_coefficient else 0
    weights = programs["unstack"].results
    always = {
        "params": params,
        "frozen": frozen,
        "optimizer": optimizer,
        "reference": reference,
        "code": code,
    }

    def phase(name: str, own: int, **live: int) -> Phase:
        """`own`: what the program holds that a field above or in `live` counts."""
        rest = max(programs[name].peak - own, 0)
        return Phase(name, **always, **live, activations=rest)

    caches = plan.cache_bytes
    return [
        phase("unstack", params + frozen + weights, sampler_weights=weights),
        # A wave's own caches are among those of all waves.
        phase(
            "prefill",
            weights + plan.wave_bytes(branches=0),
            sampler_weights=weights,
            caches=caches,
        ),
        phase(
            "decode",
            weights + plan.wave_bytes(branches=plan.branches),
            sampler_weights=weights,
            caches=caches,
        ),
        phase("accumulate", 2 * params + frozen, gradients=params),
        phase("apply", 2 * params + optimizer, gradients=params),
    ]
