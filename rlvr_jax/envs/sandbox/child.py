"""What one forked child does: run a solution, or run the tests of one.

Runs inside the sandbox. The functions here talk in frames of the codec over two pipes
that exist for this one program; what they say is believed only as far as it can be
checked outside.
"""

import builtins
import os
import sys
import types

from rlvr_jax.envs import extraction
from rlvr_jax.envs.sandbox import assertions, codec

SOLUTION_FILE = "<solution>"
_PRELUDE = """
from typing import *
from collections import *
import bisect, collections, copy, functools, heapq, itertools, json, math, operator
import random, re, string, typing
"""


def install_prelude() -> None:
    """Makes the pre-imported names builtins: no child has to copy them.

    Called once in the warm interpreter; a builtin of the same name stays.
    """
    names: dict = {}
    exec(_PRELUDE, names)
    vars(builtins).update({**names, **vars(builtins)})


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

    def send(self, value: object) -> None:
        data = memoryview(_frame(value))
        while data:
            data = data[_write(self.write_fd, data) :]

    def receive(self) -> object:
        while not self.waiting:
            data = os.read(self.read_fd, 65536)
            if not data:
                raise EOFError("the other side is gone")
            self.waiting += self.reader.feed(data)
        return self.waiting.pop(0)


def run(job: dict, channel: Channel) -> None:
    """Runs one job; its "mode" is "solution" or "tests"."""
    if job["mode"] == "solution":
        run_solution(job, channel)
    else:
        run_tests(job, channel)


def run_solution(job: dict, channel: Channel) -> None:
    """Loads one solution, answers the calls of the job, then calls as they come."""
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
    while job["serve"]:
        name, arguments, keywords = channel.receive()
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

    Returns:
        ("value", value, arguments after the call or None if they did not change),
        ("opaque", type name), or ("error", class, message, lines).
    """
    before = codec.encode(arguments)
    try:
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
        if isinstance(error, KeyError) and name not in namespace:
            return ("error", "NameError", f"name '{name}' is not defined", [])
        return ("error", *describe(error))


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


class SolutionGone(BaseException):
    """The solution's process ended: no further test can run."""


class Remote:
    """The solution as the tests see it: a channel, and what went through it.

    Args:
        channel: to the controller.
        entry_point: the function asked for; its answers must be data.
    """

    def __init__(self, channel: Channel, entry_point: str) -> None:
        self.channel, self.entry_point = channel, entry_point
        self.calls = 0
        # What the tests need and data cannot carry: an argument that is no plain
        # data, or an instance of a class of the solution.
        self.unsupported: list[str] = []


class Proxy:
    """Stands for one function of the solution inside the tests."""

    def __init__(self, name: str, remote: Remote) -> None:
        self._name, self._remote = name, remote

    def __call__(self, *arguments, **keywords):
        remote = self._remote
        remote.calls += 1
        try:
            remote.channel.send(("call", self._name, arguments, keywords))
        except _CodecError:
            remote.unsupported.append(self._name)
            raise
        reply = remote.channel.receive()
        if reply[0] == "value":
            _, value, changed = reply
            for old, new in zip(arguments, changed or (), strict=False):
                _mutate(old, new)
            return value
        if reply[0] == "opaque":
            # Without an entry point any function may be the one asked for.
            if remote.entry_point and self._name != remote.entry_point:
                remote.unsupported.append(self._name)
            error = TypeError(f"the answer is a {reply[1]}, not plain data")
            error.rlvr_remote = ("TypeError", str(error), [])
            raise error
        if reply[0] == "error":
            raise _remote_error(*reply[1:])
        raise SolutionGone


def _mutate(old, new):
    if isinstance(old, list):
        old[:] = new
    elif isinstance(old, (dict, set)):
        old.clear()
        old.update(new)


def _remote_error(name, message, lines):
    kind = getattr(builtins, name, None)
    plain = isinstance(kind, type) and issubclass(kind, Exception)
    try:
        error = kind(message) if plain else type(name, (Exception,), {})(message)
    except Exception:
        error = Exception(message)
    error.rlvr_remote = (name, message, lines)
    return error


class Record:
    """Outcomes of the counted tests of one job."""

    def __init__(self) -> None:
        self.runs: dict[int, int] = {}
        self.failures: dict[int, dict] = {}

    def check(self, site, left, *right):
        self.runs[site] = self.runs.get(site, 0) + 1
        if not (left == right[0] if right else left):
            detail = {"false": True}
            if right:
                detail = {"actual": short(left), "expected": short(right[0])}
            self.failures.setdefault(site, detail)

    def fail(self, site, error):
        if isinstance(error, SolutionGone):
            raise error
        remote = getattr(error, "rlvr_remote", None) or describe(error)
        self.failures.setdefault(site, {"error": tuple(remote)})


def short(value: object, limit: int = 2000) -> str:
    """repr of a value, cut in the middle."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


def run_tests(job: dict, channel: Channel) -> None:
    """Runs the tests of one job against the solution at the other end."""
    remote = Remote(channel, job["entry_point"])
    namespace = _tests_namespace(job, remote)
    record = Record()
    namespace[assertions.CHECK] = record.check
    namespace[assertions.FAIL] = record.fail
    trees, count = [], 0
    for source in job["tests"]:
        tree, texts = assertions.rewrite(source, count)
        code = compile(tree, "<tests>", "exec")
        # A source without asserts is one test, which passes by reaching its end.
        trees.append((code, range(count, count + max(len(texts), 1)), bool(texts)))
        channel.send(("tests", texts or [source]))
        count += max(len(texts), 1)
    setup = compile(job["preamble"] + "\n" + job["setup"], "<setup>", "exec")
    stopped = _run_source(setup, "", namespace)
    if stopped is not None and not remote.calls:
        channel.send(("broken",))
        return
    # The preamble's own definition must not hide the solution.
    if job["entry_point"]:
        namespace[job["entry_point"]] = Proxy(job["entry_point"], remote)
    for code, sites, counted in trees:
        ended = stopped or _run_source(code, job["entry_point"], namespace)
        if not counted and ended is None:
            record.runs[sites[0]] = 1
        for site in sites:
            detail = record.failures.get(site)
            passed = detail is None and record.runs.get(site, 0) > 0
            channel.send(("test", site, passed, detail or ended or {}))
    channel.send(("broken",) if remote.unsupported else ("done",))


def _tests_namespace(job, remote):
    """Names for the tests: the prelude, modules, and proxies for the rest."""
    namespace = {"__name__": "tests"}
    entry_point = remote.entry_point
    sources = [job["preamble"], job["setup"], *job["tests"]]
    for name in assertions.free_names(sources) | ({entry_point} - {""}):
        if name in sys.stdlib_module_names and name != entry_point:
            namespace[name] = __import__(name)
        else:
            namespace[name] = Proxy(name, remote)
    return namespace


def _run_source(code, entry_point, namespace):
    """Runs one source; returns what stopped it before its end, or None."""
    try:
        exec(code, namespace)
        check = namespace.get("check")
        if isinstance(check, types.FunctionType) and entry_point:
            del namespace["check"]
            check(namespace[entry_point])
    except SolutionGone:
        return {"gone": True}
    except BaseException as error:
        told = getattr(error, "rlvr_remote", None)
        return {"error": tuple(told or describe(error))}
    return None
