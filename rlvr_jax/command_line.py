"""What the commands share: the start, and errors that a person can act on."""

import sys
from collections.abc import Callable

from absl import app, logging


def run(main: Callable[[], None]) -> None:
    """Runs a command; bad input becomes one line on stderr and exit code 2."""

    def guarded(argv: list[str]) -> None:
        # Orbax reports every phase of a save at level INFO.
        logging.set_verbosity(logging.WARNING)
        if len(argv) > 1:
            raise app.UsageError(f"unexpected argument {argv[1]!r}")
        try:
            main()
        except (ValueError, OSError, FloatingPointError) as error:
            line = " ".join(str(error).split())
            print(f"error: {line}", file=sys.stderr)
            sys.exit(1 if isinstance(error, FloatingPointError) else 2)

    app.run(guarded)
