"""What a forked child does with the tests of a solution that runs elsewhere.

Runs inside the sandbox. A call of the solution in a test becomes a message; the
verdict on each test is made here, where no untrusted code runs.
"""

import builtins
import sys
import types

from rlvr_jax.envs.sandbox import assertions, codec, suites
from rlvr_jax.envs.sandbox.child import Channel, describe, write_files


class SolutionGone(BaseException):
    """The solution's process ended: no further test can run."""

    def __init__(self) -> None:
        super().__init__()
        self.rlvr_detail = {"gone": True}


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

    def __repr__(self):
        return self._name

    def __call__(self, *arguments, **keywords):
        remote = self._remote
        remote.calls += 1
        try:
            remote.channel.send(("call", self._name, arguments, keywords))
        except codec.CodecError:
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


def _remote_error(name, message, lines, base):
    """An exception of the solution's, of the same built-in class or a class like it."""
    kind = getattr(builtins, str(base), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = Exception
    try:
        kind = kind if kind.__name__ == name else type(name, (kind,), {})
        error = kind(message)
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
    write_files(job["files"])
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
        count += max(len(texts), 1)
    channel.send(("ready",))
    setup = compile(job["preamble"] + "\n" + job["setup"], "<setup>", "exec")
    stopped = run_source(setup, "", namespace)
    if stopped is not None and not remote.calls:
        channel.send(("broken",))
        return
    # The preamble's own definition must not hide the solution.
    if job["entry_point"]:
        namespace[job["entry_point"]] = Proxy(job["entry_point"], remote)
    for code, sites, counted in trees:
        results = []
        ended = stopped or run_source(code, job["entry_point"], namespace)
        if not counted and ended is None:
            record.runs[sites[0]] = 1
        for site in sites:
            detail = record.failures.get(site)
            passed = detail is None and record.runs.get(site, 0) > 0
            results.append(("test", site, passed, detail or ended or {}))
        # Together: each frame that is sent alone wakes two processes.
        channel.send(*results)
    channel.send(("unsupported",) if remote.unsupported else ("done",))


def run_modules(job: dict, channel: Channel) -> None:
    """Runs pytest modules that import from a solution at the other end.

    Tells of each test by a frame ("result", module's number, name, outcome, detail).
    """
    write_files(job["files"])
    remote = Remote(channel, job["entry_point"])
    sys.modules["solution"] = _Stub(remote)

    def tell(*result):
        channel.send(("result", *result))

    channel.send(("ready",))
    suites.run_pytest(job["tests"], job["files"], tell)
    channel.send(("unsupported",) if remote.unsupported else ("done",))


class _Stub(types.ModuleType):
    """The module `solution` as the tests import it: all its names are proxies."""

    def __init__(self, remote):
        super().__init__("solution")
        self._remote = remote
        self.__all__ = [remote.entry_point] if remote.entry_point else []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Proxy(name, self._remote)


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


def run_source(code, entry_point, namespace):
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
