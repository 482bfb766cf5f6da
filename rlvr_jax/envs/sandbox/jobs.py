"""What is sent into a container: plain data that the codec carries."""

from collections.abc import Sequence

from rlvr_jax.envs.sandbox import codec
from rlvr_jax.envs.sandbox.container import Container
from rlvr_jax.envs.sandbox.limits import Limits


def solution_job(
    sources: Sequence[str],
    *,
    entry_point: str,
    limits: Limits,
    parameters: Sequence[str] = (),
    preamble: str = "",
    files: dict[str, str] | None = None,
    calls: Sequence[tuple] | None = None,
) -> dict:
    """Loads a solution and calls it.

    Args:
        sources: candidates; `extraction.choose` picks one, inside.
        entry_point: name of the function, or "Class.method".
        limits: of the whole job.
        parameters: when given, a source may also be an expression in these names.
        preamble: source that runs before the solution.
        files: {relative path: text}, written into the scratch folder.
        calls: argument tuples, answered in order by one frame each; None: calls come
            one by one, as frames (name, arguments, keywords), until it is cancelled.
    """
    return {
        "mode": "solution",
        "candidates": list(sources),
        "entry_point": entry_point,
        "parameters": list(parameters),
        "preamble": preamble,
        "files": dict(files or {}),
        "calls": list(calls or ()),
        "serve": calls is None,
        "limits": limits.as_dict(),
    }


def program_job(
    sources: Sequence[str],
    *,
    stdin: str,
    nonce: bytes,
    limits: Limits,
    stdout_bytes: int,
    preamble: str = "",
    files: dict[str, str] | None = None,
) -> dict:
    """Runs a whole program; what it writes to descriptor 1 comes back as bytes.

    Args:
        sources: candidates; `extraction.choose` picks one, inside.
        stdin: its standard input.
        nonce: stands between its output and the report of its exception, if any.
        limits: of this run.
        stdout_bytes: it is killed when it writes more.
        preamble, files: see solution_job.
    """
    own = limits.as_dict()
    own["results"] = stdout_bytes
    # Standard input is a file in its folder.
    own["file"] = max(own["file"], 4 * len(stdin))
    return {
        "mode": "program",
        "candidates": list(sources),
        "stdin": stdin,
        "nonce": nonce,
        "preamble": preamble,
        "files": dict(files or {}),
        "serve": False,
        "limits": own,
    }


def run_bytes(container: Container, job: dict) -> tuple[bytes, dict]:
    """Runs a job that answers with bytes; returns them and its end record."""
    parts, end = [], None
    try:
        container.begin(job)
        while end is None:
            for kind, body in container.receive():
                if kind == b"D":
                    parts.append(body)
                elif kind == b"E":
                    end = codec.decode(body)
    except BaseException:
        container.spoiled = True
        raise
    container.finish(end)
    return b"".join(parts), end


def tests_job(
    sources: Sequence[str],
    *,
    entry_point: str,
    limits: Limits,
    preamble: str = "",
    setup: str = "",
    files: dict[str, str] | None = None,
    modules: bool = False,
) -> dict:
    """Runs tests against a solution in another container.

    Args:
        sources: test sources; when they can be run a frame ("ready",) says so, then
            each test is told of by a frame ("test", number, passed, detail), of pytest
            modules by ("result", module's number, name, outcome, detail).
        entry_point: name of the function under test, as the tests call it.
        limits: of the solution. The tests wait for it, so theirs are the later ones.
        preamble, setup: sources that run before the tests, in this order.
        files: {relative path: text}, written into the scratch folder.
        modules: the sources are pytest modules that import from `solution`.
    """
    own = limits.as_dict()
    own["wall"] *= 2
    own["cpu"] = 2 * own["cpu"] + 5
    return {
        "mode": "modules" if modules else "tests",
        "tests": list(sources),
        "entry_point": entry_point,
        "preamble": preamble,
        "setup": setup,
        "files": dict(files or {}),
        "serve": True,
        "limits": own,
    }


def together_job(
    sources: Sequence[str],
    *,
    framework: str,
    nonce: bytes,
    entry_point: str,
    limits: Limits,
    preamble: str = "",
    files: dict[str, str] | None = None,
) -> dict:
    """Loads a solution, then runs tests in the same process.

    The child answers with ("loaded", nonce, index of the candidate) or ("load_error",
    ...) and waits for a frame with the tests: the solution's top level never runs
    beside them.

    Args:
        sources: candidates; `extraction.choose` picks one, inside.
        framework: "" (asserts), "unittest" or "pytest".
        nonce: of the answer.
        entry_point: name of the function, or "Class.method".
        limits: of the whole job.
        preamble, files: see solution_job.
    """
    return {
        "mode": "together",
        "candidates": list(sources),
        "framework": framework,
        "nonce": nonce,
        "entry_point": entry_point,
        "preamble": preamble,
        "files": dict(files or {}),
        "serve": True,
        "limits": limits.as_dict(),
    }


def trial_job(limits: Limits) -> dict:
    """Tries what the layers should prevent; answers with one frame {layer: it held}."""
    return {"mode": "trial", "serve": False, "limits": limits.as_dict()}
