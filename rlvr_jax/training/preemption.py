"""Being told to stop: schedulers send SIGTERM some time before they kill."""

import signal
import threading
from types import FrameType


class Preempted(Exception):
    """The run stopped because it was told to, and its work is saved.

    Args:
        step: training steps done and saved.
        steps: of the whole run.
    """

    def __init__(self, step: int, steps: int) -> None:
        super().__init__(
            f"told to stop: saved after {step} of {steps} steps; the same command goes"
            " on from there"
        )


class StopRequest:
    """Notes SIGTERM while it is entered; the run asks at the end of each step.

    Signals reach the main thread only: entered in another one, it notes nothing. A
    second SIGTERM is the first one again: a save is not interrupted.
    """

    requested: bool = False

    def __enter__(self) -> "StopRequest":
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
