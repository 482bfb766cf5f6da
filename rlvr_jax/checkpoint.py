"""Checkpoints of a run: arrays and a JSON note, complete or not there (Orbax).

A save copies the arrays to the host and returns; files are written while the run goes
on, under another name until they are whole.
"""

import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp


class Checkpoints:
    """Numbered checkpoints in one directory; use it in a `with`.

    Args:
        directory: made if it is not there.
        keep: newest checkpoints kept; all of them by default.
        keep_every: steps divisible by it are kept as well; None: no others.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        keep: int | None = None,
        keep_every: int | None = None,
    ) -> None:
        self._directory = directory.resolve()
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=keep, keep_period=keep_every
            ),
        )

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, ascending; waits for one in writing."""
        self._manager.wait_until_finished()
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, note: dict[str, Any]) -> None:
        """Writes `state` (a pytree of arrays) and `note`.

        Returns once the arrays are copied, so that they may change or be donated. What
        went wrong in writing is raised by the next call, or at the end of the `with`.
        """
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), note=ocp.args.JsonSave(note)
            ),
        )

    def delete_after(self, step: int) -> None:
        """Deletes the checkpoints of later steps: a run that goes back repeats them."""
        for later in self.steps():
            if later > step:
                self._manager.delete(later)

    def restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        """(state, note) of a step.

        Args:
            step: one of `steps()`.
            like: pytree with the shapes, types and shardings of the state.

        Raises:
            ValueError: there is no such checkpoint, or it is of another model.
        """
        if step not in self.steps():
            raise ValueError(
                f"{self._directory} has no complete checkpoint of step {step}; it has"
                f" {self.steps() or 'none'}"
            )
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(abstract),
                    note=ocp.args.JsonRestore(),
                ),
            )
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{self._directory}: the checkpoint of step {step} is of another model"
                f" or optimizer than this configuration: {str(error)[:200]}"
            ) from error
        return restored["state"], restored["note"]

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception: object) -> None:
        self._manager.wait_until_finished()
        self._manager.close()
