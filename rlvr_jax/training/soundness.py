"""Tasks tried on their own answers, before a run trusts them."""

import hashlib
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import tqdm

from rlvr_jax import distributed, envs
from rlvr_jax.config import Config
from rlvr_jax.envs.math import MathVerifier
from rlvr_jax.tasks import Task

_BATCH = 64
_WHAT = {
    "self_check": "gold answers that cannot be read",
    "self_test": "references that fail",
}


def sound_tasks(
    verifier: envs.Verifier,
    training: Sequence[Task],
    held_out: Sequence[Task],
    config: Config,
    workdir: pathlib.Path | None = None,
) -> tuple[Sequence[Task], Sequence[Task], dict[str, Any]]:
    """Leaves out training tasks that nobody can solve.

    Args:
        verifier: of the tasks.
        training: of `tasks.source`; () if they are generated.
        held_out: may be the same object, and then stays so. Else all its tasks are
            kept, so that a benchmark is the whole one, and only reported.
        config, workdir: see `try_tasks`.

    Returns:
        (training tasks kept, held-out tasks, a report per data set).

    Raises:
        ValueError: no training task is left.
    """
    reports = {}
    if training:
        report = try_tasks(
            verifier, training, config, name="tasks.source", workdir=workdir
        )
        failed = {*report.get("self_check", ()), *report.get("self_test", ())}
        kept = [task for task in training if task.id not in failed]
        if not kept:
            raise ValueError(
                f"tasks.source: the answers of all {len(training)} tasks fail on the"
                " verifier, so that nobody can solve one: repair the data set"
            )
        held_out = kept if held_out is training else held_out
        training, reports["tasks.source"] = kept, report
    if held_out is not training:
        cut = held_out[: config.eval.tasks]
        reports["tasks.eval_source"] = try_tasks(
            verifier, cut, config, name="tasks.eval_source", workdir=workdir
        )
    return training, held_out, reports


def try_tasks(
    verifier: envs.Verifier,
    rows: Sequence[Task],
    config: Config,
    *,
    name: str,
    workdir: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Finds tasks that nobody can solve, and says in one line how many there are.

    What was found for the same tasks by an earlier start in `workdir` is taken from its
    host.json: a resumed run has the same tasks, also where an answer was near a limit
    of time. Several processes try a part each and share what they find: all leave out
    the same tasks, whichever host was slow.

    Args:
        verifier: of the tasks.
        rows: tasks with unique ids, the same in all processes.
        config: `tasks.self_check` looks at gold answers of mathematics, if the
            verifier is the built-in one; `tasks.self_test` grades all references.
        name: of the data set: its setting, such as "tasks.source".
        workdir: folder of the run; None: nothing is known.

    Returns:
        For host.json: `tried`, a `fingerprint` of tasks and settings, and for each
        check that was made the ids that failed (`self_check`) or their statuses
        (`self_test`). A reference that the host failed to run has not failed.
    """
    fingerprint = _fingerprint(rows, config)
    report = _known(workdir).get(name, {})
    if report.get("fingerprint") != fingerprint:
        own = distributed.share(len(rows))
        found = _tried(verifier, rows[own.start : own.stop], config, name)
        parts = distributed.all_texts(
            f"trial of {name}",
            json.dumps(found),
            wait_seconds=config.mesh.wait_seconds,
        )
        found = _together([json.loads(part) for part in parts])
        report = {"tried": len(rows), "fingerprint": fingerprint, **found}
    for check, what in _WHAT.items():
        if check in report and distributed.is_first():
            names = list(report[check])
            shown = ", ".join(names[:5]) + (", .." if len(names) > 5 else "")
            line = f"{name}: {what}: {len(names)} of {len(rows)}"
            tqdm.tqdm.write(line + (f" ({shown})" if shown else ""), file=sys.stderr)
    return report


def _tried(
    verifier: envs.Verifier, rows: Sequence[Task], config: Config, name: str
) -> dict[str, Any]:
    """What each check that is wanted finds."""
    section, report = config.tasks, {}
    if section.self_check and isinstance(verifier, MathVerifier):
        with tqdm.tqdm(desc=f"check {name}", unit=" answers") as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            found = envs.self_check(verifier, rows, progress=show)
        report["self_check"] = list(found.failed)
    if section.self_test:
        report["self_test"] = {}
        with tqdm.tqdm(total=len(rows), desc=f"test {name}", unit=" tasks") as bar:
            for start in range(0, len(rows), _BATCH):
                batch = rows[start : start + _BATCH]
                for task, verdict in envs.self_test(verifier, batch)[1].items():
                    if verdict.status != "infrastructure":
                        report["self_test"][task] = verdict.status
                bar.update(len(batch))
        verifier.means()  # those of a run are of its own responses
    return report


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all processes found, of what each of them found."""
    found: dict[str, Any] = {}
    for part in parts:
        if "self_check" in part:
            found.setdefault("self_check", []).extend(part["self_check"])
        if "self_test" in part:
            found.setdefault("self_test", {}).update(part["self_test"])
    return found


def _fingerprint(rows: Sequence[Task], config: Config) -> str:
    section = config.tasks
    digest = hashlib.sha256(
        repr((section.verifier, section.self_check, section.self_test)).encode()
    )
    for task in rows:
        digest.update(repr(task).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _known(workdir: pathlib.Path | None) -> dict[str, Any]:
    """What an earlier start wrote; nothing if there was none."""
    if workdir is None or not (workdir / "host.json").exists():
        return {}
    try:
        return json.loads((workdir / "host.json").read_text())["tasks_tried"]
    except (ValueError, KeyError, TypeError):  # an older or half-written file
        return {}
