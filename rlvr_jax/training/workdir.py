"""The folder of a run: its configuration, and where a start continues."""

import dataclasses
import json
import pathlib
from typing import Any

from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.config import Config, to_json

CONFIG_FILE = "config.json"
CHECKPOINTS = "checkpoints"


@dataclasses.dataclass(frozen=True)
class Source:
    """A checkpoint to continue from: its folder and its step."""

    directory: pathlib.Path
    step: int


def find_source(
    workdir: pathlib.Path, config: Config, resume: str | None
) -> Source | None:
    """What a start in `workdir` continues from; changes nothing.

    Args:
        workdir: the folder.
        config: of the run that starts.
        resume: `latest`; `none`; a step of this folder; the folder of another run, to
            fork its latest checkpoint; None is `latest` if the folder holds this very
            run or nothing.

    Returns:
        The checkpoint, None for a fresh start.

    Raises:
        ValueError: the folder holds another run, the checkpoint that was asked for is
            not there, or it is of other adapters.
    """
    file = workdir / CONFIG_FILE
    if file.exists() and resume is None:
        kept, wanted = _content(file), json.loads(to_json(config))
        if kept != wanted:
            raise ValueError(
                f"{workdir} holds a different run ({_difference(kept, wanted)}):"
                " choose another --workdir, or say --resume=latest to go on with the"
                " new settings"
            )
    source = _source(workdir, resume or "latest")
    if source is not None:
        check_trained(source.directory.parent, config)
    return source


def check_trained(workdir: pathlib.Path, config: Config) -> None:
    """Raises ValueError if the run of a folder trained other arrays, see `lora`.

    A checkpoint of adapters says neither `alpha` nor that there is a model below.
    """
    file = workdir / CONFIG_FILE
    if not file.exists():
        return
    # Runs from before the section trained everything.
    kept = _content(file).get("lora", {"rank": 0})
    wanted = json.loads(to_json(config))["lora"]
    if kept != wanted and (kept["rank"] or wanted["rank"]):
        raise ValueError(
            f"{workdir} trained with {_lora(kept)}, this configuration has"
            f" {_lora(wanted)}: its checkpoints need the same section lora"
        )


def _lora(section: dict) -> str:
    """The section `lora` in a few words."""
    if not section["rank"]:
        return "lora.rank 0 (all parameters)"
    return ", ".join(f"lora.{name} {value}" for name, value in section.items())


def claim(workdir: pathlib.Path, config: Config) -> None:
    """Makes the folder of a run if it is missing, and writes its configuration."""
    workdir.mkdir(parents=True, exist_ok=True)
    (workdir / CONFIG_FILE).write_text(to_json(config))


def _content(file: pathlib.Path) -> dict:
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(
            f"{file} is not JSON ({error}): move it away, or say --resume=latest to"
            " write it anew"
        ) from error


def _source(workdir: pathlib.Path, resume: str) -> Source | None:
    own = workdir / CHECKPOINTS
    steps = saved_steps(own)
    if resume == "latest":
        return Source(own, steps[-1]) if steps else None
    if resume == "none":
        if steps:
            raise ValueError(
                f"{workdir} has checkpoints of steps {steps} and --resume=none would"
                " overwrite them: choose another --workdir"
            )
        return None
    if resume.isdigit() and int(resume) in steps:
        return Source(own, int(resume))
    other = pathlib.Path(resume) / CHECKPOINTS
    if not resume.isdigit() and saved_steps(other):
        if steps:
            raise ValueError(
                f"{workdir} has checkpoints of its own, steps {steps}: fork {resume}"
                " into another --workdir"
            )
        return Source(other, saved_steps(other)[-1])
    raise ValueError(
        f"--resume must be latest, none, a step of {workdir} ({steps or 'it has none'})"
        f" or the folder of another run with checkpoints; got {resume!r}"
    )


def saved_steps(directory: pathlib.Path) -> list[int]:
    """Steps of the complete checkpoints in a folder, ascending; [] if it is missing."""
    if not directory.is_dir():
        return []
    with Checkpoints(directory) as checkpoints:
        return checkpoints.steps()


def checkpoint_step(workdir: pathlib.Path, checkpoint: str, *, others: str = "") -> int:
    """The step that `--checkpoint` means.

    Args:
        workdir: the run's folder.
        checkpoint: `latest` or a step.
        others: what --checkpoint may be besides, for the error.

    Raises:
        ValueError: there is no such checkpoint.
    """
    directory = workdir / CHECKPOINTS
    steps = saved_steps(directory)
    if checkpoint == "latest" and steps:
        return steps[-1]
    if not checkpoint.isdigit() or int(checkpoint) not in steps:
        raise ValueError(
            f"--checkpoint must be {others}latest or a step of"
            f" {directory} ({steps or 'it has none'}); got {checkpoint!r}"
        )
    return int(checkpoint)


def restored_params(workdir: pathlib.Path, step: int, like: Any) -> Any:
    """What a checkpoint trained, without the optimizer's state.

    Args:
        workdir: the run's folder.
        step: from `checkpoint_step`.
        like: pytree with the shapes, types and shardings of what is trained.

    Raises:
        ValueError: the checkpoint is of another model.
    """
    with Checkpoints(workdir / CHECKPOINTS) as checkpoints:
        return checkpoints.restore_params(step, like)


def _difference(kept: dict, wanted: dict, prefix: str = "") -> str:
    """The first setting that differs, as `name: old -> new`."""
    for name in sorted(set(kept) | set(wanted)):
        old, new = kept.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            return _difference(old, new, f"{prefix}{name}.")
        if old != new:
            return f"{prefix}{name}: {old} -> {new}"
    return "no difference"
