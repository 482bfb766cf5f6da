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
        self._check_step(step)
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(_abstract(like)),
                    note=ocp.args.JsonRestore(),
                ),
            )
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{self._directory}: the checkpoint of step {step} is of another model"
                f" or optimizer than this configuration: {str(error)[:200]}"
            ) from error
        return restored["state"], restored["note"]

    def restore_params(self, step: int, like: Any) -> Any:
        """The parameters alone of a step; nothing else of the state is read.

        Args:
            step: one of `steps()`.
            like: pytree with the shapes, types and shardings of the parameters.

        Raises:
            ValueError: there is no such checkpoint, or it is of another model.
        """
        self._check_step(step)
        # A partial restore would pass over arrays that only one side has.
        handler = ocp.PyTreeCheckpointHandler()
        stored = handler.metadata(self._directory / str(step) / "state").tree["params"]
        if _shapes(stored) != _shapes(like):
            raise ValueError(
                f"{self._directory}: the checkpoint of step {step} is of another model"
                f" than this configuration: {_first_difference(stored, like)}"
            )
        wanted = {"params": _abstract(like)}
        state = ocp.args.PyTreeRestore(
            wanted,
            restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
            partial_restore=True,
        )
        restored = self._manager.restore(step, args=ocp.args.Composite(state=state))
        return restored["state"]["params"]

    def _check_step(self, step: int) -> None:
        if step not in self.steps():
            raise ValueError(
                f"{self._directory} has no complete checkpoint of step {step}; it has"
                f" {self.steps() or 'none'}"
            )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception: object) -> None:
        self._manager.wait_until_finished()
        self._manager.close()


def _abstract(like: Any) -> Any:
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, like)


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """Shapes by the arrays' paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): tuple(x.shape) for path, x in leaves}


def _first_difference(stored: Any, like: Any) -> str:
    old, new = _shapes(stored), _shapes(like)
    name = min(name for name in old | new if old.get(name) != new.get(name))
    return f"{name} is {old.get(name, 'not there')}, wanted {new.get(name, 'nothing')}"
