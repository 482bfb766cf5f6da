"""Evaluates: python -m rlvr_jax.evaluate --config=FILE.py --workdir=DIR"""

import dataclasses
import json
import pathlib
from typing import Any

import tqdm
from absl import flags

from rlvr_jax import command_line, config
from rlvr_jax.evaluation import evaluate, feedback_controls, table
from rlvr_jax.training.workbench import open_workbench
from rlvr_jax.training.workdir import (
    check_trained,
    checkpoint_step,
    restored_params,
)

_CONFIG = config.define_flag()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "latest",
    "latest or a step of the workdir, base (the configuration's start policy), or a"
    " Hugging Face directory.",
)
_OUTPUT = flags.DEFINE_string("output", None, "Result file (JSON).")
_CONTROLS = flags.DEFINE_bool(
    "controls", False, "Also measure whether retries use their feedback."
)
_COMPARE = flags.DEFINE_string("compare", None, "Earlier result to show beside it.")


def main() -> None:
    """Evaluates one policy, writes the result and prints its table."""
    settings = config.parse(_CONFIG.value)
    before = _earlier(pathlib.Path(_COMPARE.value)) if _COMPARE.value else None
    if _OUTPUT.value:
        # A folder that cannot be made is found now, not after the work.
        pathlib.Path(_OUTPUT.value).parent.mkdir(parents=True, exist_ok=True)
    checkpoint, step = _CHECKPOINT.value, None
    workdir = pathlib.Path(_WORKDIR.value) if _WORKDIR.value else None
    if pathlib.Path(checkpoint).is_dir():
        model = dataclasses.replace(settings.model, path=checkpoint)
        settings = dataclasses.replace(settings, model=model)
    elif checkpoint != "base":
        step = _step(workdir, checkpoint, settings)
    bench, params = open_workbench(settings, workdir)
    with bench:
        if step is not None:
            params = restored_params(workdir, step, params)
        bench.warm_up(params, training=False, evaluation=True)
        params = bench.whole(params)
        with tqdm.tqdm(
            total=len(bench.held_out), desc="evaluate", unit=" tasks"
        ) as bar:
            result = evaluate(
                bench.sampler,
                params,
                bench.held_out,
                config=settings,
                tokenizer=bench.tokenizer,
                verify=bench.verifier.verify,
                progress=lambda done: bar.update(done - bar.n),
            )
        if _CONTROLS.value:
            result["controls"] = feedback_controls(
                bench.sampler,
                params,
                bench.held_out,
                config=settings,
                tokenizer=bench.tokenizer,
                verify=bench.verifier.verify,
            )
    if _OUTPUT.value:
        pathlib.Path(_OUTPUT.value).write_text(json.dumps(result, indent=1))
    print(table(result, before))


def _earlier(path: pathlib.Path) -> dict[str, Any]:
    """The result in a file that an evaluation wrote."""
    try:
        result = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"--compare={path}: not JSON: {error}") from error
    if not (isinstance(result, dict) and {"metrics", "tasks"} <= result.keys()):
        raise ValueError(f"--compare={path}: wanted a file that --output wrote")
    return result


def _step(
    workdir: pathlib.Path | None, checkpoint: str, settings: config.Config
) -> int:
    """The step of the workdir that --checkpoint means."""
    if workdir is None:
        raise ValueError(f"--checkpoint={checkpoint} needs --workdir, the run's folder")
    check_trained(workdir, settings)
    others = "base, a Hugging Face directory, "
    return checkpoint_step(workdir, checkpoint, others=others)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    command_line.run(main)
