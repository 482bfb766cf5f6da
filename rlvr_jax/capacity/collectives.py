"""Bytes that a compiled program sends between devices, by kind of collective."""

import dataclasses
import math
import re

from rlvr_jax.capacity.hlo import Instruction, Module, executions, parse

KINDS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "collective-permute",
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a program.

    Attributes:
        kind: of `KINDS`.
        group: devices that take part together.
        size: of the whole array on a device: what is gathered, or what is reduced.
        sent: bytes that a device must receive at least, each time.
        times: in one run of the program.
    """

    kind: str
    group: int
    size: int
    sent: int
    times: int


def collectives(text: str, num_devices: int) -> tuple[list[Collective], list[str]]:
    """The collectives of a compiled program, with the loops around them multiplied.

    A TPU program holds an asynchronous collective several times: where it begins,
    beside the work that hides it, and where it ends. They share a channel: it counts
    once.

    Args:
        text: of `compiled.as_text()`.
        num_devices: of the program; the group where none is written.

    Returns:
        (collectives, names of the loops whose number of turns is not known: one turn of
        them counts).

    Raises:
        ValueError: groups that cannot be read.
    """
    module = parse(text)
    times, unknown = executions(module)
    found = []
    for place in _places(module):
        seen = set()
        for instruction, inner in _within(module, place):
            kind = instruction.opcode.removesuffix("-start")
            if kind not in KINDS or not times.get(place):
                continue
            channel = re.search(r"channel_id=(\d+)", instruction.attributes)
            key = (kind, channel[1] if channel else (inner, instruction.name))
            if key in seen:
                continue
            seen.add(key)
            collective = _collective(instruction, kind, num_devices, times[place])
            if collective.group > 1:
                found.append(_scattered(module, inner, instruction, collective))
    return found, unknown


def by_kind(found: list[Collective]) -> dict[str, dict[str, int]]:
    """kind -> {count, bytes}: how often in a run, and bytes a device receives."""
    table: dict[str, dict[str, int]] = {}
    for item in found:
        row = table.setdefault(item.kind, {"count": 0, "bytes": 0})
        row["count"] += item.times
        row["bytes"] += item.times * item.sent
    return table


def _places(module: Module) -> list[str]:
    """Computations that run by themselves: not inside a fusion or an async call."""
    inner = set()
    for instructions in module.computations.values():
        for instruction in instructions:
            if instruction.opcode in ("fusion", "async-start"):
                inner |= set(instruction.called("calls"))
    return [name for name in module.computations if name not in inner]


def _within(module: Module, place: str) -> list[tuple[Instruction, str]]:
    """Instructions of a computation and of its fusions, with where they stand."""
    found = []
    for instruction in module.computations[place]:
        found.append((instruction, place))
        if instruction.opcode in ("fusion", "async-start"):
            for called in instruction.called("calls"):
                found += _within(module, called)
    return found


def _collective(
    instruction: Instruction, kind: str, num_devices: int, times: int
) -> Collective:
    arrays = instruction.arrays
    if instruction.opcode.endswith("-start") and kind != "all-reduce":
        # (operands, results, context): the results alone.
        arrays = [a for a in arrays if a > 4]
        arrays = arrays[len(arrays) // 2 :]
    group = _group(instruction.attributes, kind, num_devices)
    size = sum(arrays)
    rest = (group - 1) / group
    if kind == "reduce-scatter":
        size *= group  # the result is a device's part
    sent = {
        "all-gather": size * rest,
        "reduce-scatter": size * rest,
        "all-reduce": 2 * size * rest,
        "all-to-all": size * rest,
        "collective-permute": size,
    }[kind]
    return Collective(kind, group, size, round(sent), times)


def _scattered(
    module: Module, inner: str, instruction: Instruction, collective: Collective
) -> Collective:
    """An all-reduce whose device keeps only its part is a reduce-scatter.

    The TPU compiler writes that as a fusion of both, named after it.
    """
    is_scatter = "all-reduce-scatter" in inner or "all-reduce-scatter" in (
        instruction.name
    )
    if collective.kind != "all-reduce" or not is_scatter:
        return collective
    return dataclasses.replace(
        collective, kind="reduce-scatter", sent=collective.sent // 2
    )


def _group(attributes: str, kind: str, num_devices: int) -> int:
    """Devices per group, from any of the ways in which groups are written."""
    if kind == "collective-permute":
        return num_devices
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    if listed:
        return len(listed[1].split(","))
    iota = re.search(r"replica_groups=\[\d+,(\d+)\]<=", attributes)
    if iota:
        return int(iota[1])
    named = re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", attributes)
    if named:
        sizes = dict(re.findall(r"'?([\w]+)'?=(\d+)", named[1]))
        # An axis, or a part of one: 'fsdp':(2)4 are 4 of it.
        used = re.findall(r"'?([A-Za-z_]\w*)'?(?::\(\d+\)(\d+))?", named[2])
        return math.prod(int(part or sizes[axis]) for axis, part in used)
    if "replica_groups={}" in attributes or "replica_groups" not in attributes:
        return num_devices
    found = attributes[attributes.index("replica_groups") :][:80]
    raise ValueError(f"replica_groups must be in a known form; got {found!r}")
