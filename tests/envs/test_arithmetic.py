"""The verifier of bare numbers."""

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.arithmetic import NO_NUMBER_FEEDBACK
from rlvr_jax.tasks import arithmetic_tasks

TASKS = {task.id: task for task in arithmetic_tasks("two_digit_addition:train")}
TASK = next(task for task in TASKS.values() if task.metadata["operands"] == (91, 73))


@pytest.fixture(scope="module")
def verdict_of():
    with envs.make_verifier("arithmetic") as verifier:
        yield lambda response: verifier.verify([(TASK, response)])[0]


@pytest.mark.parametrize(
    "response",
    ["164", " 164.", "91 + 73 = 164", "It is 164.\n", "No, not 163 but 164"],
)
def test_the_last_number_counts(verdict_of, response):
    verdict = verdict_of(response)
    assert (verdict.reward, verdict.solved, verdict.visible_passed) == (1.0, True, True)
    assert verdict.status == "passed"


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ("163", "163"),
        ("164 or 165", "165"),
        ("164 163", "163"),
        ("-164", "-164"),
        ("164.5", "164.5"),
        ("164.0", "164.0"),
        ("1,640", "1640"),
        ("1640", "1640"),
        ("91 + 73", "73"),
        ("1" * 50, "111..111"),
    ],
)
def test_a_wrong_number_is_named_and_the_answer_is_not(verdict_of, response, shown):
    verdict = verdict_of(response)
    assert (verdict.reward, verdict.solved, verdict.status) == (0.0, False, "failed")
    assert verdict.feedback == f"Not {shown}."


@pytest.mark.parametrize("response", ["", " \n", "I do not know.", "one hundred"])
def test_no_number(verdict_of, response):
    verdict = verdict_of(response)
    assert (verdict.reward, verdict.status) == (0.0, "no_answer")
    assert verdict.feedback == NO_NUMBER_FEEDBACK


def test_a_very_long_answer_is_not_read(verdict_of):
    assert verdict_of("164 " * 2000).status == "output_limit"


def test_the_reference_of_every_task_is_right():
    rows = arithmetic_tasks("one_digit_multiplication:train")
    with envs.make_verifier("arithmetic") as verifier:
        kept, failed = envs.self_test(verifier, rows)
    assert (kept, failed) == (rows, {})
