"""Writes a run's policy for other tools.

python -m rlvr_jax.export --workdir=DIR --output=HF_DIR [--checkpoint=latest|STEP]
"""

import json
import os
import pathlib
import shutil

import jax
from absl import flags

from rlvr_jax import command_line, config, models, tasks
from rlvr_jax.training.workdir import CONFIG_FILE, checkpoint_step, restored_params


def export(
    workdir: pathlib.Path, output: pathlib.Path, *, checkpoint: str, dtype: str
) -> int:
    """Writes a Hugging Face directory with the policy of a run.

    It holds safetensors, config.json, the tokenizer with the chat template, and
    generation_config.json with the stop ids, all as the run used them. The directory
    appears complete or not at all. The optimizer's state is not read.

    Args:
        workdir: the run's folder.
        output: the directory to write; missing or empty.
        checkpoint: `latest` or a step.
        dtype: of the weights in the file, `float32` or `bfloat16`.

    Returns:
        The step of the checkpoint.

    Raises:
        ValueError: `workdir` is no run or has no such checkpoint, its start policy is
            gone, or `output` holds something.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(
            f"--output={output} exists and is not an empty folder: name another one"
        )
    settings = _run_config(workdir)
    start = config.model_directory(settings)
    if not start.is_dir():
        raise ValueError(
            f"model.path {start} of the run is not there, and the tokenizer comes from"
            " it: say this in the folder where the run was started"
        )
    tokenizer = tasks.load_tokenizer(start, thinking=settings.model.thinking_switch)
    model = models.Decoder(models.ModelConfig.from_directory(start))
    step = checkpoint_step(workdir, checkpoint)
    params = restored_params(workdir, step, _host_shapes(model.config))
    partial = output.parent / f".{output.name}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        tokenizer.save(partial)
        models.save(partial, model, params, dtype=dtype)
        os.replace(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return step


def _run_config(workdir: pathlib.Path) -> config.Config:
    file = workdir / CONFIG_FILE
    if not file.is_file():
        raise ValueError(
            f"--workdir={workdir} has no {CONFIG_FILE}: name the folder of a run"
        )
    try:
        return config.parse(json.loads(file.read_text()))
    except ValueError as error:
        raise ValueError(
            f"--workdir={workdir}: {CONFIG_FILE} is not a run's configuration ({error})"
        ) from error


def _host_shapes(model: models.ModelConfig) -> dict:
    """Shapes of float32 parameters in the host's memory."""
    shapes = jax.eval_shape(lambda key: models.init(model, key)[1], jax.random.key(0))
    host = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=host), shapes
    )


def main() -> None:
    """Exports as the flags say, and prints what was written."""
    values = flags.FLAGS
    workdir, output = pathlib.Path(values.workdir), pathlib.Path(values.output)
    step = export(workdir, output, checkpoint=values.checkpoint, dtype=values.dtype)
    print(f"{output}: step {step} of {workdir}, {values.dtype}")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of the run.")
    flags.DEFINE_string("output", None, "Hugging Face directory to write.")
    flags.DEFINE_string("checkpoint", "latest", "latest or a step of the workdir.")
    flags.DEFINE_enum(
        "dtype", "float32", ["float32", "bfloat16"], "Type of the weights in the file."
    )
    flags.mark_flags_as_required(["workdir", "output"])
    command_line.run(main)
