"""Results of the tests of one response, as they come in, and their verdict."""

from rlvr_jax.envs.code.inventory import Item
from rlvr_jax.envs.code.sources import (
    HIDDEN_FEEDBACK,
    NO_CODE_FEEDBACK,
    PASSED_FEEDBACK,
)
from rlvr_jax.envs.feedback import TEST_CHARACTERS, load_error, outcome
from rlvr_jax.envs.verdict import Verdict, cut
from rlvr_jax.tasks.records import Task


class Report:
    """What was heard about one response.

    Args:
        items: the tests that have to be run.
    """

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.loaded: tuple | None = None
        self.complete = False  # the run came to its end
        self.tampered = False  # nothing that was heard can be believed
        self.stopped = ("error", "Your code ended early.")  # of tests without a result
        self.results: dict[tuple, list] = {}

    def add(self, source: object, name: object, result: object, detail: object) -> None:
        """Takes the result of one run of one test; not trusted, checked for shape."""
        if type(source) is int and type(name) is str and isinstance(detail, dict):
            if result == "collected":
                return
            key = (source, name.partition("[")[0])
            self.results.setdefault(key, []).append((result, detail))

    def detail(self, item: Item) -> dict | None:
        """Why a test has not passed; None if it has."""
        runs = self.results.get((item.source, item.name), [])
        for result, detail in runs:
            if result != "passed":
                return detail
        if len(runs) == item.runs or (runs and not item.runs):
            return None
        # A module that could not be imported has one result, without a name.
        for _, detail in self.results.get((item.source, ""), []):
            return detail
        return {"gone": True}


def verdict_of(task: Task, response: str, blocks: list, report: Report) -> Verdict:
    """The verdict on a response.

    Args:
        task: of the response.
        response: the policy's text.
        blocks: its code blocks, as (source, lines before it).
        report: what was heard.
    """
    total = len(report.items)
    if report.loaded is not None and report.loaded[0] != "loaded":
        status, text = load_error(response, blocks, report.loaded[1])
        if text.startswith("SyntaxError") and blocks == [(response, 0)]:
            # Prose without a code block, as far as anybody can tell.
            status, text = "no_answer", f"{NO_CODE_FEEDBACK}\n{text}"
        return Verdict(0.0, False, text, status, 0, total)
    details = [report.detail(item) for item in report.items]
    if report.tampered:
        details = [{"gone": True}] * total
    elif not report.complete and not any(details):
        # All passed, but the end is missing.
        details[-1] = {"gone": True}
    failing = [i for i, detail in enumerate(details) if detail is not None]
    if not failing:
        return Verdict(1.0, True, PASSED_FEEDBACK, "passed", total, total, True)
    first, passed = failing[0], total - len(failing)
    if details[first].get("gone"):
        status, text = report.stopped
    else:
        status, text = outcome(response, blocks, report.loaded, details[first])
    shown = len(task.visible_tests)
    visible_passed = report.items[first].source >= shown
    if visible_passed:
        text = HIDDEN_FEEDBACK
    else:
        text = f"Test failed: {cut(report.items[first].text, TEST_CHARACTERS)}\n{text}"
    return Verdict(passed / total, False, text, status, passed, total, visible_passed)
