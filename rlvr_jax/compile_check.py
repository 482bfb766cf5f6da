"""Compiles a run for a TPU slice without having one, and says whether it fits.

python -m rlvr_jax.compile_check --config=FILE.py:argument --topology=v5e:8x8
"""

import os
import pathlib
import sys

# The programs are for chips that are not here.
os.environ["JAX_PLATFORMS"] = "cpu"

from absl import flags

from rlvr_jax import capacity, command_line, config

_CONFIG = config.define_flag()
_TOPOLOGY = flags.DEFINE_string("topology", None, "TPU slice, for example v5e:8x8.")
_MODEL = flags.DEFINE_string(
    "model", None, "Shapes of a model by name, for example qwen3-4b; no weights needed."
)
_JSON = flags.DEFINE_string("json", None, "File for the report as JSON.")


def main() -> None:
    """Compiles, prints the tables; exit code 1 if the run does not fit."""
    settings = config.parse(_CONFIG.value)
    model = capacity.model_shapes(settings, _MODEL.value)
    topology = capacity.load_topology(_TOPOLOGY.value)
    report = capacity.check_capacity(
        settings,
        model,
        topology,
        compiled=lambda program: print(
            f"compiled {program.name} in {program.seconds:.0f} s"
            f" ({program.processor_seconds:.0f} s of CPU time)",
            file=sys.stderr,
        ),
    )
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(report.to_json() + "\n")
    print(report.to_text())
    if not report.fits:
        sys.exit(1)


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "topology"])
    command_line.run(main)
