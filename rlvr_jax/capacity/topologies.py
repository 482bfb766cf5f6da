"""TPU slices by name, as devices that programs can be compiled for."""

import dataclasses
import math
import os
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from rlvr_jax.capacity.chips import CHIPS, Chip

# libtpu is a compiler here: it shall look for no chip, ask no metadata server, warn of
# neither, and let other processes compile too.
OFFLINE = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclasses.dataclass(frozen=True)
class Topology:
    """Devices to compile for; none of them need exist.

    Attributes:
        name: for people.
        chip: what each of them is.
        devices: all of them; a chip may be several.
        num_chips: how many chips they are.
    """

    name: str
    chip: Chip
    devices: tuple[Any, ...]
    num_chips: int

    @property
    def num_processes(self) -> int:
        """Hosts, one process each."""
        return len({device.process_index for device in self.devices})

    @property
    def per_chip(self) -> int:
        """Devices of a chip: they share its peaks."""
        return len(self.devices) // self.num_chips


def host_topology(topology: Topology) -> Topology:
    """Where the sampler of one process can be compiled.

    It samples on its own host's devices. libtpu 0.0.52 compiles no program for a part
    of a v5e or v6e slice of more than 8 chips; the slice of one host stands in there.
    Its chips, memory and links are the same.

    Args:
        topology: of the run.

    Returns:
        `topology` itself where its compiler takes a part of it.
    """
    local = [device for device in topology.devices if device.process_index == 0]
    mesh = Mesh(np.array(local), ("all",), axis_types=(AxisType.Auto,))
    place = NamedSharding(mesh, PartitionSpec("all"))
    probe = jax.ShapeDtypeStruct((len(local),), jnp.float32, sharding=place)
    try:
        jax.jit(jnp.sum).lower(probe).compile()
    except jax.errors.JaxRuntimeError:
        shape = "x".join(["2", "2", "1"][: topology.chip.dimensions])
        return load_topology(f"{topology.chip.name}:{shape}")
    return topology


def load_topology(name: str) -> Topology:
    """The slice of this name.

    Args:
        name: `chip:AxB` or `chip:AxBxC`, for example v5e:8x8.

    Raises:
        ValueError: no such chip or slice, or libtpu is missing; names valid ones.
    """
    kind, _, shape = name.partition(":")
    if kind not in CHIPS:
        raise ValueError(
            f"topology {name!r}: the chip must be one of {', '.join(CHIPS)}, for"
            f" example v5e:8x8; got {kind!r}"
        )
    chip = CHIPS[kind]
    valid = ", ".join(f"{kind}:{slice_}" for slice_ in chip.slices)
    pattern = r"[1-9]\d*" + r"x[1-9]\d*" * (chip.dimensions - 1)
    if not re.fullmatch(pattern, shape):
        raise ValueError(
            f"topology {name!r}: a {kind} slice has {chip.dimensions} sizes; valid are"
            f" {valid} and the like"
        )
    count = math.prod(int(size) for size in shape.split("x"))
    if not 4 <= count <= chip.most_chips:
        raise ValueError(
            f"topology {name!r}: a {kind} slice has 4 to {chip.most_chips} chips; got"
            f" {count}; valid are {valid} and the like"
        )
    return Topology(name, chip, _devices(name, valid), count)


def _devices(name: str, valid: str) -> tuple[Any, ...]:
    for variable, value in OFFLINE.items():
        os.environ.setdefault(variable, value)
    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except Exception as error:  # libtpu and jax raise types of their own
        if "INVALID_ARGUMENT" in str(error):
            reason = str(error).split("INVALID_ARGUMENT:")[-1].strip()
            raise ValueError(
                f"topology {name!r}: {reason}; valid are {valid} and the like"
            ) from error
        raise ValueError(
            f"topology {name!r} needs libtpu, which could not be loaded: pip install"
            f" libtpu ({' '.join(str(error).split())[:200]})"
        ) from error
    return tuple(description.devices)
