"""What one program may use."""

import dataclasses

_MIN_MEMORY = 64 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one program may use.

    Args:
        cpu_seconds: processor time, > 0; the one that decides, so that a busy
            machine changes no verdict.
        wall_seconds: elapsed time, generous, against programs that sleep.
        memory_bytes: address space, at least 64 MiB.
        output_bytes: what it may print.
        results_bytes: what it may return, all calls together.
        file_bytes: largest file it may write in its private folder.
        threads: processes and threads of the container.
    """

    cpu_seconds: float = 4.0
    wall_seconds: float = 20.0
    memory_bytes: int = 512 << 20
    output_bytes: int = 1 << 20
    results_bytes: int = 4 << 20
    file_bytes: int = 8 << 20
    threads: int = 16

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(
                    f"{field.name} must be above 0, got {value!r}; give a larger limit"
                )
        if self.memory_bytes < _MIN_MEMORY:
            raise ValueError(
                f"memory_bytes must be {_MIN_MEMORY} or more, got {self.memory_bytes};"
                " the interpreter alone needs as much"
            )

    def as_dict(self) -> dict:
        """The names that the zygote reads."""
        return {
            "cpu": float(self.cpu_seconds),
            "wall": float(self.wall_seconds),
            "memory": self.memory_bytes,
            "output": self.output_bytes,
            "results": self.results_bytes,
            "file": self.file_bytes,
            "threads": self.threads,
        }
