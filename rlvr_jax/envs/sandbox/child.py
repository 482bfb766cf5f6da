"""What a forked child does with a solution; its tests run in another container.

Runs inside the sandbox. The functions here talk in frames of the codec over two pipes
that exist for this one program; what they say is believed only as far as it can be
checked outside.
"""

import builtins
import os
import sys
import types

from rlvr_jax.envs import extraction
from rlvr_jax.envs.sandbox import codec

SOLUTION_FILE = "<solution>"
PRELUDE: dict = {}
_PRELUDE_SOURCE = """
from typing import *
from collections import *
import bisect, collections, copy, functools, heapq, itertools, json, math, operator
import random, re, string, typing
"""


exec(_PRELUDE_SOURCE, PRELUDE)
# Names that every solution finds, as on the sites that such tasks come from.
PRELUDE = {name: value for name, value in PRELUDE.items() if name[:2] != "__"}


def install_prelude() -> None:
    """Makes the pre-imported names builtins: no child has to copy them.

    Called once in the warm interpreter; a builtin of the same name stays.
    """
    vars(builtins).update({**PRELUDE, **vars(builtins)})


_BUILTIN_ERRORS = {
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
# Looked up before untrusted code runs, which may patch the modules.
_write = os.write
_frame = codec.frame
_CodecError = codec.CodecError


class Channel:
    """Frames over a pair of pipes."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self.reader = codec.FrameReader()
        self.waiting: list = []

    def send(self, *values: object) -> None:
        data = memoryview(b"".join([_frame(value) for value in values]))
        while data:
            data = data[_write(self.write_fd, data) :]

    def receive(self) -> object:
        while not self.waiting:
            data = os.read(self.read_fd, 65536)
            if not data:
                raise EOFError("the other side is gone")
            self.waiting += self.reader.feed(data)
        return self.waiting.pop(0)


def write_files(files: dict, folder: str = ".") -> None:
    """Writes {relative path: text} into a folder, by default the scratch folder."""
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    if files and folder == ".":
        # At the end: no file of a task hides a module of the library.
        sys.path.append(os.getcwd())


def run_solution(job: dict, channel: Channel) -> None:
    """Loads one solution, answers the calls of the job, then calls as they come."""
    write_files(job["files"])
    chosen = extraction.choose(job["candidates"], job["entry_point"])
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    namespace = module.__dict__
    try:
        if job["preamble"]:
            exec(compile(job["preamble"], "<preamble>", "exec"), namespace)
        _load(job["candidates"][chosen], job, namespace)
    except BaseException as error:
        channel.send(("load_error", chosen, *describe(error)))
        return
    channel.send(("loaded", chosen))
    for arguments in job["calls"]:
        channel.send(call(namespace, job["entry_point"], arguments, {}))
    method = job["entry_point"].rpartition(".")[2]
    while job["serve"]:
        name, arguments, keywords = channel.receive()
        if name == method:
            name = job["entry_point"]
        channel.send(call(namespace, name, arguments, keywords))


def _load(source, job, namespace):
    if job["parameters"]:
        try:
            code = compile(source.strip(), SOLUTION_FILE, "eval")
        except SyntaxError:
            pass  # not an expression
        else:
            namespace[job["entry_point"]] = _function(code, job)
            return
    exec(compile(source, SOLUTION_FILE, "exec"), namespace)


def _function(code, job):
    """An expression as a function of the job's parameters."""

    def function(*arguments):
        scope = dict(zip(job["parameters"], arguments, strict=True))
        scope[job["entry_point"]] = function
        return eval(code, scope)

    return function


def call(namespace: dict, name: str, arguments: tuple, keywords: dict) -> tuple:
    """One call of a solution's function, as a reply that can be framed.

    Args:
        namespace: of the solution.
        name: a function, or "Class.method", which is called on a fresh instance.
        arguments, keywords: plain data.

    Returns:
        ("value", value, arguments after the call or None if they did not change),
        ("opaque", type name), or ("error", class, message, lines, name of the
        class's nearest built-in base).
    """
    before = codec.encode(arguments)
    try:
        owner, _, method = name.rpartition(".")
        if owner:
            value = getattr(namespace[owner](), method)(*arguments, **keywords)
        else:
            value = namespace[name](*arguments, **keywords)
        try:
            after = codec.encode(arguments)
            changed = None if after == before else arguments
            reply = ("value", value, changed)
            codec.encode(reply)
            return reply
        except _CodecError:
            return ("opaque", type(value).__name__)
    except BaseException as error:
        wanted = name.partition(".")[0]
        if isinstance(error, KeyError) and wanted not in namespace:
            text = f"name '{wanted}' is not defined"
            return ("error", "NameError", text, [], "NameError")
        bases = [kind for kind in type(error).__mro__ if kind in _BUILTIN_ERRORS]
        return ("error", *describe(error), bases[0].__name__)


def describe(error: BaseException) -> tuple[str, str, list]:
    """Class name, message and the (line, function) pairs inside the solution."""
    lines = []
    if isinstance(error, SyntaxError) and error.filename == SOLUTION_FILE:
        lines.append((int(error.lineno or 0), ""))
        message = str(error.msg)
    else:
        try:
            message = str(error)[:500]
        except BaseException:
            message = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == SOLUTION_FILE:
            lines.append((trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return type(error).__name__, message, lines[-3:]
