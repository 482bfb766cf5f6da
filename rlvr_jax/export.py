"""Writes a run's policy for other tools.

python -m rlvr_jax.export --workdir=DIR --output=HF_DIR [--checkpoint=latest|STEP]
    [--adapter]
"""

import json
import os
import pathlib
import shutil

import jax
from absl import flags

from rlvr_jax import command_line, config, models, sharding, tasks
from rlvr_jax.training.policy import Policy, make_policy, stored_types
from rlvr_jax.training.workdir import CONFIG_FILE, checkpoint_step, restored_params


def export(
    workdir: pathlib.Path,
    output: pathlib.Path,
    *,
    checkpoint: str,
    dtype: str,
    adapter: bool = False,
) -> int:
    """Writes a Hugging Face directory with the policy of a run.

    It holds safetensors, config.json, the tokenizer with the chat template, and
    generation_config.json with the stop ids, all as the run used them. The directory
    appears complete or not at all. The optimizer's state is not read. Adapters of LoRA
    are merged into the model, or are all that is written of it.

    Args:
        workdir: the run's folder.
        output: the directory to write; missing or empty.
        checkpoint: `latest` or a step.
        dtype: of the weights in the file, `float32` or `bfloat16`.
        adapter: write the adapters alone, for PEFT, instead of the model.

    Returns:
        The step of the checkpoint.

    Raises:
        ValueError: `workdir` is no run or has no such checkpoint, its start policy is
            gone, `output` holds something, or `adapter` of a run without LoRA.
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
    if adapter and not settings.lora.rank:
        raise ValueError(
            f"--adapter needs a run with lora.rank above 0; {workdir} trained all"
            " parameters: leave the flag out"
        )
    tokenizer = tasks.load_tokenizer(start, thinking=settings.model.thinking_switch)
    model = models.Decoder(models.ModelConfig.from_directory(start))
    policy = make_policy(settings, model.config, _host_shapes(Policy(model.config)))
    step = checkpoint_step(workdir, checkpoint)
    trained = restored_params(workdir, step, _host_shapes(policy))
    partial = output.parent / f".{output.name}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        tokenizer.save(partial)
        if adapter:
            models.save_adapters(
                partial,
                model.config,
                trained,
                policy.lora,
                base=str(start),
                dtype=dtype,
            )
        else:
            frozen = _frozen(settings, start) if policy.frozen else None
            models.save(partial, model, policy.whole(trained, frozen), dtype=dtype)
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


def _host_shapes(policy: Policy) -> dict:
    """Shapes of what was trained, float32 in the host's memory."""
    return sharding.shapes(policy.shapes(), _host())


def _frozen(settings: config.Config, start: pathlib.Path) -> dict:
    """The start policy as the run held it, in the host's memory."""
    axes = models.logical_axes(models.ModelConfig.from_directory(start))
    places = jax.tree.map(lambda _: _host(), axes, is_leaf=lambda x: type(x) is tuple)
    return models.load(start, shardings=places, **stored_types(settings))[1]


def _host() -> jax.sharding.Sharding:
    return jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])


def main() -> None:
    """Exports as the flags say, and prints what was written."""
    values = flags.FLAGS
    workdir, output = pathlib.Path(values.workdir), pathlib.Path(values.output)
    step = export(
        workdir,
        output,
        checkpoint=values.checkpoint,
        dtype=values.dtype,
        adapter=values.adapter,
    )
    part = ", adapters" if values.adapter else ""
    print(f"{output}: step {step} of {workdir}, {values.dtype}{part}")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "Folder of the run.")
    flags.DEFINE_string("output", None, "Hugging Face directory to write.")
    flags.DEFINE_string("checkpoint", "latest", "latest or a step of the workdir.")
    flags.DEFINE_enum(
        "dtype", "float32", ["float32", "bfloat16"], "Type of the weights in the file."
    )
    flags.DEFINE_bool(
        "adapter", False, "Write the adapters of LoRA alone, in PEFT's format."
    )
    flags.mark_flags_as_required(["workdir", "output"])
    command_line.run(main)
