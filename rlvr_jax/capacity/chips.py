"""Published peaks of TPU chips."""

import dataclasses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One chip as its vendor describes it.

    Numbers are those of the pages "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e" and "TPU7x"
    at docs.cloud.google.com/tpu/docs (read in 2026); the interconnect of v4 is six
    links of 50 GB/s each way (Jouppi et al. 2023, arXiv 2304.01433).

    Attributes:
        name: as it begins the name of a topology.
        flops: bfloat16 peak, FLOP/s.
        memory: HBM that programs can use, bytes. Published are 32, 16, 95, 32 and 192
            GiB; where libtpu 0.0.52 refuses programs that need more than a little less,
            that is the number here.
        memory_bandwidth: HBM, bytes/s.
        link_bandwidth: all interconnect links together, one direction, bytes/s: half
            of what is published as bidirectional.
        dimensions: of the torus.
        most_chips: of the largest slice that is offered.
        slices: some of the slices that are offered, for messages.
    """

    name: str
    flops: float
    memory: float
    memory_bandwidth: float
    link_bandwidth: float
    dimensions: int
    most_chips: int
    slices: tuple[str, ...]


_PLANE = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")

CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("v4", 275e12, 30.5 * GIB, 1.2e12, 300e9, 3, 4096, _CUBES),
        Chip("v5e", 197e12, 15.75 * GIB, 819e9, 200e9, 2, 256, _PLANE),
        Chip("v5p", 459e12, 95 * GIB, 2.765e12, 600e9, 3, 6144, _CUBES),
        Chip("v6e", 918e12, 31.24 * GIB, 1.6e12, 400e9, 2, 256, _PLANE),
        Chip("tpu7x", 2307e12, 189.48 * GIB, 7.38e12, 600e9, 3, 9216, _CUBES),
    )
}
