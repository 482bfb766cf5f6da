import time

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.math import NO_ANSWER_FEEDBACK, WRONG_FEEDBACK
from rlvr_jax.tasks.formats.answers import BOX_INSTRUCTION, HASHES_INSTRUCTION
from rlvr_jax.tasks.records import Task


def verdict(response, answer, **settings):
    with envs.make_verifier("math", **settings) as verifier:
        return verifier.verify([(Task("t", "math", "", answer=answer), response)])[0]


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so #### 1,234", "12 + ... #### 1,234"),
        (r"\boxed{1234}", "1,234"),
        (r"\boxed{$1234}", "1,234"),
        (r"\boxed{\$1{,}234.00}", "1,234"),
        ("#### 1234.", "#### 1,234"),
        (r"\boxed{1234.0}", "1234"),
        (r"\fbox{-3}", "-3"),
        ("\\boxed{\N{MINUS SIGN}3}", "-3"),
        (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"\boxed{-\dfrac{1}{2}}", "-1/2"),
        (r"\boxed{2/4}", r"\boxed{\frac{1}{2}}"),
        ("<answer> 7 </answer>", "7"),
        (r"<answer>\boxed{7}</answer>", "7"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"first \boxed{3}, no: \boxed{4}", "4"),
        (r"\boxed{3} then #### 4", "4"),
        (r"#### 3 then" + "\n" + r"\boxed{4}", "4"),
        (r"\boxed{4} \boxed{3", "4"),
        (r"\boxed{4}, not \text{5}", "4"),
        (r"\boxed{50\%}", "1/2"),
        (r"\boxed{50\%}", "50"),
        (r"\boxed{50}", "50%"),
        (r"\boxed{1e3}", "1000"),
        (r"\boxed{.5}", "0.5"),
        (r"\boxed{007}", "7"),
    ],
)
def test_right_answers(response, answer):
    found = verdict(response, answer)
    assert (found.reward, found.solved, found.status) == (1.0, True, "passed")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{\frac{1}{2}}", "1/3"),
        (r"\boxed{0.333}", "1/3"),
        (r"\boxed{3}", "-3"),
        (r"\boxed{4} \boxed{5}", "4"),
        (r"\boxed{12,34}", "1234"),
        (r"\boxed{1/0}", "1"),
        (r"\boxed{}", "0"),
        (r"\boxed{5 or 6}", "5"),
        (r"\boxed{0.5}", "50"),
        (r"\boxed{1e999999999}", "1"),
        (r"\boxed{" + "9" * 5000 + "}", "1"),
        (r"\boxed{2^{2^{2^{100}}}}", "4"),
    ],
)
def test_wrong_answers(response, answer):
    found = verdict(response, answer)
    assert (found.reward, found.status) == (0.0, "failed")
    assert found.feedback == WRONG_FEEDBACK


@pytest.mark.parametrize("response", ["", "the answer is 4", r"\boxed{4", "<answer>4"])
def test_an_unmarked_number_is_no_answer(response):
    found = verdict(response, "4")
    assert (found.reward, found.status) == (0.0, "no_answer")
    assert found.feedback == NO_ANSWER_FEEDBACK[r"\boxed"]


@pytest.mark.parametrize(
    ("prompt", "mark"),
    [
        ("2+2?", r"\boxed"),
        (f"2+2?\n\n{BOX_INSTRUCTION}", r"\boxed"),
        (f"2+2?\n\n{HASHES_INSTRUCTION}", "####"),
        (f"Of 1+1 it is #### 2. 2+2? {BOX_INSTRUCTION}", r"\boxed"),
        # The last one counts, not the most frequent one.
        (f"#### 1\n#### 2\n2+2? {BOX_INSTRUCTION}", r"\boxed"),
        (f"Of \\boxed{{1}} and \\boxed{{3}} the mean? {HASHES_INSTRUCTION}", "####"),
        ("2+2? Answer in <answer> </answer>.", "<answer>"),
        (
            [
                {"role": "system", "content": "End with #### N."},
                {"role": "user", "content": "2+2?"},
            ],
            "####",
        ),
    ],
)
def test_a_missing_answer_is_asked_for_in_the_form_of_the_prompt(prompt, mark):
    task = Task("t", "math", prompt, answer="4")
    with envs.make_verifier("math") as verifier:
        (found,) = verifier.verify([(task, "four")])
        assert found.feedback == NO_ANSWER_FEEDBACK[mark]
        # What it asks for is what is read.
        form = {r"\boxed": r"\boxed{4}", "####": "#### 4"}
        answer = form.get(mark, "<answer>4</answer>")
        assert verifier.verify([(task, answer)])[0].solved


@pytest.mark.parametrize("answer", ["", "  ", "####", "x" * 5000])
def test_a_task_without_a_gold_answer_is_abstained(answer):
    found = verdict(r"\boxed{4}", answer)
    assert (found.reward, found.status) == (None, "abstained")


def test_feedback_is_a_setting():
    assert verdict(r"\boxed{5}", "4", feedback="No.").feedback == "No."


@pytest.mark.parametrize(
    "response",
    [
        "<answer>" * 100_000,
        r"\boxed{" * 60_000 + "}" * 60_000,
        "#### " * 200_000,
        r"\boxed{" + "{" * 400_000,
        r"\boxed{1e" + "9" * 400 + "}",
        "\\boxed" + " " * 900_000,
    ],
)
def test_long_answers_are_cheap(response):
    start = time.process_time()
    assert verdict(response, "4").reward == 0.0
    assert time.process_time() - start < 2.0


def test_too_long_an_answer_is_not_read():
    assert verdict("x" * 11, "4", max_characters=10).status == "output_limit"
