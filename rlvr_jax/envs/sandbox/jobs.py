"""What is sent into a container: plain data that the codec carries."""

from collections.abc import Sequence

from rlvr_jax.envs.sandbox.pool import Limits


def solution_job(
    sources: Sequence[str],
    *,
    entry_point: str,
    limits: Limits,
    parameters: Sequence[str] = (),
    preamble: str = "",
    calls: Sequence[tuple] | None = None,
) -> dict:
    """Loads a solution and calls it.

    Args:
        sources: candidates; `extraction.choose` picks one, inside.
        entry_point: name of the function.
        limits: of the whole job.
        parameters: when given, a source may also be an expression in these names.
        preamble: source that runs before the solution.
        calls: argument tuples, answered in order by one frame each; None: calls come
            one by one, as frames (name, arguments, keywords), until it is cancelled.
    """
    return {
        "mode": "solution",
        "candidates": list(sources),
        "entry_point": entry_point,
        "parameters": list(parameters),
        "preamble": preamble,
        "calls": list(calls or ()),
        "serve": calls is None,
        "limits": limits.as_dict(),
    }


def tests_job(
    sources: Sequence[str],
    *,
    entry_point: str,
    limits: Limits,
    preamble: str = "",
    setup: str = "",
) -> dict:
    """Runs tests against a solution in another container.

    Args:
        sources: test sources; each is told of by a frame ("tests", texts), then each
            test by a frame ("test", number, passed, detail).
        entry_point: name of the function under test.
        limits: of the solution. The tests wait for it, so theirs are the later ones.
        preamble, setup: sources that run before the tests, in this order.
    """
    own = limits.as_dict()
    own["wall"] *= 2
    own["cpu"] = 2 * own["cpu"] + 5
    return {
        "mode": "tests",
        "tests": list(sources),
        "entry_point": entry_point,
        "preamble": preamble,
        "setup": setup,
        "limits": own,
    }
