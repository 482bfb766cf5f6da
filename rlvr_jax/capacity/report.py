"""The answer to whether a step fits, as a table and as JSON."""

import dataclasses
import json
from typing import Any

from rlvr_jax.capacity.advice import advice
from rlvr_jax.capacity.floor import Floor, floor
from rlvr_jax.capacity.memory import Phase
from rlvr_jax.capacity.plan import Plan
from rlvr_jax.capacity.programs import Program
from rlvr_jax.models import parameter_count

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Report:
    """What compiling a step's programs showed.

    Attributes:
        plan: of the step.
        programs: in the order of compilation.
        phases: in the order of a step.
    """

    plan: Plan
    programs: list[Program]
    phases: list[Phase]

    @property
    def worst(self) -> Phase:
        """The phase that needs most memory."""
        return max(self.phases, key=lambda phase: phase.peak)

    @property
    def memory(self) -> float:
        """HBM of a device, bytes."""
        topology = self.plan.topology
        return topology.chip.memory / topology.per_chip

    @property
    def fits(self) -> bool:
        """Every program compiled, and the peak is no larger than the memory."""
        compiled = all(not program.needed for program in self.programs)
        return compiled and self.worst.peak <= self.memory

    @property
    def floors(self) -> list[Floor]:
        """Least times, in the order of `programs`."""
        return [floor(program, self.plan.topology) for program in self.programs]

    @property
    def advice(self) -> list[str]:
        """What to change; nothing if it fits."""
        return [] if self.fits else advice(self.plan, self.worst)

    def to_json(self) -> str:
        """Everything, sizes in bytes and times in seconds, as indented JSON."""
        plan = self.plan
        summary: dict[str, Any] = {
            "topology": plan.topology.name,
            "chip": dataclasses.asdict(plan.topology.chip),
            "chips": plan.topology.num_chips,
            "devices": len(plan.topology.devices),
            "processes": plan.topology.num_processes,
            "mesh": dict(zip(("data", "fsdp", "tensor"), plan.mesh_sizes, strict=True)),
            "model": dataclasses.asdict(plan.model),
            "parameters": parameter_count(plan.model),
            "rows": plan.rows,
            "micro_batches": plan.micro_batches,
            "updates": plan.updates,
            "waves": plan.waves,
            "memory": self.memory,
            "peak": self.worst.peak,
            "share": self.worst.peak / self.memory,
            "fits": self.fits,
            "advice": self.advice,
            "floor_seconds": sum(item.seconds for item in self.floors),
            "phases": [
                dataclasses.asdict(phase) | {"peak": phase.peak}
                for phase in self.phases
            ],
            "programs": [
                dataclasses.asdict(program)
                | {"peak": program.peak, "sent": program.sent}
                | {"floor": dataclasses.asdict(item)}
                for program, item in zip(self.programs, self.floors, strict=True)
            ],
        }
        return json.dumps(summary, indent=2)

    def to_text(self) -> str:
        """Tables in Markdown."""
        parts = [self._title(), _memory_table(self), _work_table(self), self._last()]
        return "\n\n".join(parts)

    def _title(self) -> str:
        plan, model = self.plan, self.plan.model
        data, fsdp, tensor = plan.mesh_sizes
        return (
            f"{model.family}, {parameter_count(model) / 1e9:.2f} B parameters, on"
            f" {plan.topology.name} ({plan.topology.num_chips} chips,"
            f" {plan.topology.num_processes} hosts): data {data}, fsdp {fsdp}, tensor"
            f" {tensor}.\nA step at its limits: {plan.rows} rows of"
            f" {plan.config.update.row_length} tokens in {plan.micro_batches}"
            f" micro-batches of {plan.config.update.rows}, {plan.updates} update(s);"
            f" {plan.prompts} prompts per host in waves of"
            f" {plan.buckets.contexts[-1]} contexts: {plan.waves} per turn."
        )

    def _last(self) -> str:
        worst, memory = self.worst, self.memory
        share = f"{worst.peak / GIB:.2f} of {memory / GIB:.2f} GiB"
        seconds = sum(item.seconds for item in self.floors)
        lines = [
            f"Step-time floor at the published peaks: {seconds:.1f} s.",
            f"Peak in {worst.program}: {share}, {worst.peak / memory:.0%}.",
        ]
        elsewhere = {p.compiled_for for p in self.programs} - {self.plan.topology.name}
        if elsewhere:
            lines.append(
                f"Note: the compiler takes no program for one host's part of"
                f" {self.plan.topology.name}; the sampler was compiled for"
                f" {', '.join(elsewhere)}. Whether the runtime of the slice takes it"
                " was not tried."
            )
        if self.fits:
            return "\n".join([*lines, "It fits."])
        refused = [program.name for program in self.programs if program.needed]
        if refused:
            lines.append(f"The compiler refused {', '.join(refused)}: out of memory.")
        lines.append("It does not fit. Try:")
        return "\n".join([*lines, *(f"  {line}" for line in self.advice)])


def _memory_table(report: Report) -> str:
    names = [field.name for field in dataclasses.fields(Phase)][1:]
    header = [name.replace("_", " ") for name in names]
    rows = [
        [phase.program]
        + [_gib(getattr(phase, name)) for name in names]
        + [_gib(phase.peak), f"{phase.peak / report.memory:.0%}"]
        for phase in report.phases
    ]
    title = "Memory of a device while a program runs, GiB:"
    return f"{title}\n\n" + _table(["program", *header, "peak", "share"], rows)


def _work_table(report: Report) -> str:
    rows = []
    for program, item in zip(report.programs, report.floors, strict=True):
        sent = ", ".join(
            f"{kind} {_amount(program.runs * row['bytes'])}B"
            for kind, row in sorted(program.collectives.items())
        )
        rows.append(
            [
                program.name,
                str(program.runs),
                _amount(program.flops),
                _amount(program.traffic) + "B",
                sent or "none",
                f"{item.compute:.2f}",
                f"{item.memory:.2f}",
                f"{item.interconnect:.2f}",
                f"{program.processor_seconds:.0f}",
            ]
        )
    title = (
        "Work of a device in a step, and the seconds it takes at the published peaks:"
    )
    header = ["program", "runs", "FLOPs", "HBM", "interconnect"]
    header += ["compute s", "memory s", "interconnect s", "compile CPU s"]
    return f"{title}\n\n" + _table(header, rows)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def _amount(number: float) -> str:
    """1.2e9 -> `1.2 G`."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 1e3:.3g} k"
