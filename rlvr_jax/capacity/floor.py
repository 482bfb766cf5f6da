"""The least time of a step that published peaks allow."""

import dataclasses

from rlvr_jax.capacity.programs import Program
from rlvr_jax.capacity.topologies import Topology


@dataclasses.dataclass(frozen=True)
class Floor:
    """Least seconds of all runs of a program, if nothing but that resource counted.

    Attributes:
        program: its name.
        compute: its FLOPs at the bfloat16 peak.
        memory: its HBM traffic at the published bandwidth.
        interconnect: what a device receives, over all links at once.
    """

    program: str
    compute: float
    memory: float
    interconnect: float

    @property
    def seconds(self) -> float:
        """The largest of the three: they may overlap."""
        return max(self.compute, self.memory, self.interconnect)

    @property
    def bound(self) -> str:
        """Which of the three that is."""
        names = ("compute", "memory", "interconnect")
        return max(names, key=lambda name: getattr(self, name))


def floor(program: Program, topology: Topology) -> Floor:
    """The floor of all runs of `program` in a step on devices of `topology`."""
    chip, share = topology.chip, topology.per_chip
    return Floor(
        program.name,
        compute=program.flops * share / chip.flops,
        memory=program.traffic * share / chip.memory_bandwidth,
        interconnect=program.sent * share / chip.link_bandwidth,
    )
