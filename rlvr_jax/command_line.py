"""What the commands share: the start, and errors that a person can act on.

Exit codes: 0 done, 1 a metric became NaN, 2 bad input, 75 told to stop and saved.
"""

import logging as std_logging
import sys
import traceback
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from rlvr_jax import distributed
from rlvr_jax.training.preemption import Preempted

# sysexits.h's "temporary failure, try again": schedulers can be told to requeue on it.
REQUEUE = 75


def run(main: Callable[[], None]) -> None:
    """Runs a command; bad input becomes one line on stderr and exit code 2."""

    def guarded(argv: list[str]) -> None:
        # Orbax reports every phase of a save at level INFO.
        logging.set_verbosity(logging.WARNING)
        std_logging.getLogger("rlvr_jax").setLevel(std_logging.INFO)
        try:
            main()
        except Preempted as stop:
            print(stop, file=sys.stderr)
            sys.exit(REQUEUE)
        except (ValueError, OSError, FloatingPointError) as error:
            _stop(str(error), 1 if isinstance(error, FloatingPointError) else 2)
        except Exception:
            traceback.print_exc()
            distributed.leave(1)

    app.run(guarded, flags_parser=_parsed)


def parse_flags(
    argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
    """Parses a command line into `flag_values`.

    Args:
        argv: the command's name and its arguments.
        flag_values: knows the flags.

    Returns:
        The command's name alone.

    Raises:
        ValueError: an unknown flag or configuration key, a value of a wrong type, a
            configuration file that cannot be loaded, or an argument that is no flag.
    """
    try:
        rest = flag_values(argv)
    except (AttributeError, KeyError) as error:
        # What ml_collections raises for a key that the configuration has not.
        name = error
        while isinstance(name, Exception):  # one error wraps the other
            name = name.args[0]
        name = " ".join(name.split())
        raise ValueError(
            f"unknown configuration key in a flag: {name}; --dry_run without the flag"
            " prints all keys"
        ) from error
    except flags.Error as error:
        # A file that fails is reported with its traceback, whose last line says why.
        line = str(error).strip().splitlines()
        raise ValueError(line[0] if len(line) == 1 else f"{line[0]} {line[-1]}") from (
            error
        )
    if len(rest) > 1:
        raise ValueError(f"unexpected argument {rest[1]!r}; wanted --name=value")
    return rest


def _parsed(argv: list[str]) -> list[str]:
    try:
        return parse_flags(argv)
    except ValueError as error:
        _stop(str(error), 2)


def _stop(message: str, code: int) -> None:
    """Ends the process with one line on stderr."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    distributed.leave(code)
