"""The process in which a user's reward functions run."""

import asyncio
import importlib
import importlib.util
import inspect
import math
import numbers
import operator
import os
import pathlib
import sys
import threading
import time
import traceback
from collections.abc import Callable

from rlvr_jax.envs.workers import Channel

_VERL = {"solution_str", "ground_truth"}


def main() -> None:
    """Serves {"load": names} and {"prompts", "completions", "columns", "verl"}."""
    channel = Channel()
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    channel.reply({})
    functions: dict[str, Callable] = {}
    with asyncio.Runner() as runner:
        for request in channel.requests():
            try:
                if "load" in request:
                    functions = {name: _loaded(name) for name in request["load"]}
                    reply = {}
                else:
                    reply = {"values": _values(functions, request, runner)}
            except _Refused as error:
                reply = {"error": str(error)}
            channel.reply(reply)


class _Refused(Exception):
    """What is wrong with a function or with what it returned."""


def _leave_with(parent: int) -> None:
    """Ends this process when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _loaded(name: str) -> Callable:
    module, _, attribute = name.rpartition(":")
    try:
        function = operator.attrgetter(attribute)(_module(module))
    except BaseException as error:
        raise _Refused(f"{name} cannot be loaded: {_said(error)}") from error
    if not callable(function):
        raise _Refused(f"{name} is no function but {type(function).__name__}")
    return function


def _module(name):
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = pathlib.Path(name).resolve()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {name}")
    sys.path.insert(0, str(path.parent))  # for what it imports
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _values(functions, request, runner):
    """One list per function, with a value for each response."""
    return [
        _of_function(name, function, request, runner)
        for name, function in functions.items()
    ]


def _of_function(name, function, request, runner):
    names = inspect.signature(function).parameters
    count = len(request["completions"])
    try:
        if set(names) >= _VERL:
            calls = (_accepted(names, row) for row in request["verl"])
            found = [_awaited(function(**call), runner) for call in calls]
        else:
            columns = {
                **request["columns"],
                "prompts": request["prompts"],
                "completions": request["completions"],
            }
            found = _awaited(function(**_accepted(names, columns)), runner)
    except Exception as error:
        raise _Refused(f"{name} raised {_said(error)}") from error
    if not isinstance(found, (list, tuple)) and hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, (list, tuple)) or len(found) != count:
        raise _Refused(
            f"{name} must return a list of {count} values, one for each completion;"
            f" got {found!r:.80}"
        )
    return [_number(name, value) for value in found]


def _awaited(value, runner):
    # Only what is async runs in the loop: the others may start loops of their own.
    async def result():
        return await value

    return runner.run(result()) if inspect.isawaitable(value) else value


def _accepted(names, columns):
    """The columns that a function takes: all of them if it has **columns."""
    if any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return columns
    return {name: column for name, column in columns.items() if name in names}


def _number(name, value):
    if isinstance(value, dict):  # verl's form, with more entries for its logs
        value = value.get("score", "no score")
    if value is None:
        return None
    if not isinstance(value, numbers.Real) and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (numbers.Real, bool)) or not math.isfinite(value):
        raise _Refused(
            f"{name} must return finite numbers, or None to abstain; got {value!r:.80}"
        )
    return float(value)


def _said(error):
    """The error in one line, with the user's line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    ours = last is None or last.filename == __file__
    place = (
        "" if ours else f" (line {last.lineno} of {os.path.basename(last.filename)})"
    )
    return f"{type(error).__name__}: {str(error)[:300]}{place}"
