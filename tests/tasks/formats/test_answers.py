"""Final answers: what is gold, what is shown, what is kept."""

import json

import pytest

from rlvr_jax.tasks import read_tasks
from rlvr_jax.tasks.formats.answers import last_box
from tests.tasks.formats import rows


def read(tmp_path, *lines, format="auto", name="a.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_tasks(path, format)


def test_math(tmp_path):
    (task,) = read(tmp_path, rows.MATH)
    assert (task.kind, task.answer) == ("math", r"\frac{1}{2}")
    assert task.prompt.startswith("What is half of $1$?\n\n")
    assert r"\boxed{}" in task.prompt
    assert task.metadata == {
        "level": "Level 2",
        "type": "Prealgebra",
        "solution": rows.MATH["solution"],
    }


def test_math_with_an_answer_of_its_own(tmp_path):
    row = {**rows.MATH, "answer": "0.5", "unique_id": "test/1.json"}
    given, empty = read(tmp_path, row, {**row, "answer": ""})
    assert given.answer == "0.5"
    assert given.metadata["unique_id"] == "test/1.json"
    assert empty.answer == r"\frac{1}{2}"
    (number,) = read(tmp_path, {"problem": "p", "answer": 12.0})
    assert number.answer == "12"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{3}", "3"),
        (r"\boxed {3}", "3"),
        (r"\fbox{ 4 }", "4"),
        (r"\boxed 2, that is", "2"),
        (r"\boxed{1} \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} \boxed{2", "1"),
        (r"\boxed{1 \boxed{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\text{a } b\}}", r"\text{a } b\}"),
        (r"no box { }", ""),
        (r"\boxed{", ""),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{2 + \boxed{5}}", r"2 + \boxed{5}"),
        (r"\boxed{\boxed{5}", "5"),
    ],
)
def test_last_balanced_box(text, content):
    assert last_box(text) == content


def test_aime(tmp_path):
    (task,) = read(tmp_path, rows.AIME)
    assert task.answer == "73"
    assert "solution" in task.metadata
    capital = {"ID": "2024-II-4", "Problem": "p", "Solution": "s", "Answer": 0}
    (task,) = read(tmp_path, capital)
    assert (task.prompt[:3], task.answer) == ("p\n\n", "0")
    (task,) = read(tmp_path, {"question": "q", "answer": "007"}, format="aime")
    assert task.answer == "7"


def test_polaris_difficulty_is_a_number(tmp_path):
    (task,) = read(tmp_path, rows.POLARIS)
    assert (task.answer, task.metadata["difficulty"]) == ("2\\pi", 0.375)


def test_svamp(tmp_path):
    first, second = read(
        tmp_path, rows.SVAMP, {**rows.SVAMP, "Body": "It is so?", "Answer": 0.5}
    )
    assert first.prompt.startswith(
        "Ann has 8 pens and buys 2 more. How many has she now?\n\n"
    )
    assert first.answer == "10"
    assert second.prompt.startswith("It is so? How many")
    assert second.answer == "0.5"


def test_choices_of_gpqa_are_shuffled_the_same_way_each_time(tmp_path):
    many = [
        {**rows.GPQA, "Question": f"Which is heaviest in room {i}?"} for i in range(200)
    ]
    tasks = read(tmp_path, *many)
    letters = [task.answer for task in tasks]
    # 200 draws of one letter in four: 50 each, standard deviation 6.
    assert all(25 < letters.count(letter) < 75 for letter in "ABCD")
    assert tasks == read(tmp_path, *many)
    for task in tasks:
        assert task.metadata["choices"]["ABCD".index(task.answer)] == "lead"
        assert f"\n{task.answer}) lead" in task.prompt
        assert all(f"{letter}) " in task.prompt for letter in "ABCD")
    # The order does not depend on which choice is the right one.
    swapped = {
        **rows.GPQA,
        "Correct Answer": "water",
        "Incorrect Answer 1": "lead",
    }
    (one,), (two,) = read(tmp_path, rows.GPQA), read(tmp_path, swapped)
    assert one.prompt == two.prompt
    assert one.answer != two.answer


def test_listed_choices_keep_their_order(tmp_path):
    lettered = {**rows.CHOICES, "answer": "C"}
    options = {"question": "q?", "options": ["a", "b"], "answer": "A"}
    (first, second), (third,) = (
        read(tmp_path, rows.CHOICES, lettered),
        read(tmp_path, options),
    )
    assert (first.answer, second.answer, third.answer) == ("B", "C", "A")
    assert "A) one\nB) red\nC) dog" in first.prompt
    assert first.metadata == {"subject": "words", "choices": ["one", "red", "dog"]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**rows.MATH, "solution": "It is 2."}, r"solution: wanted .*\\boxed{ANSWER}"),
        ({**rows.AIME, "answer": "1000"}, "answer: wanted an integer from 0 to 999"),
        ({**rows.AIME, "answer": "x"}, "got 'x'; the format 'math' takes other answ"),
        ({**rows.POLARIS, "difficulty": "9/8"}, "wanted a number between 0 and 1 or a"),
        ({**rows.POLARIS, "difficulty": "1/0"}, "a fraction such as '3/8'.*got '1/0'"),
        ({**rows.POLARIS, "difficulty": "hard"}, "share of attempts that solved"),
        ({**rows.POLARIS, "difficulty": True}, "difficulty: wanted .*got True"),
        ({**rows.SVAMP, "Answer": None}, "column Answer: wanted a text or a number"),
        ({**rows.GPQA, "Incorrect Answer 1": "lead"}, "choices, all different, got"),
        ({**rows.CHOICES, "answer": "D"}, "wanted a letter or an index of one of 3"),
        ({**rows.CHOICES, "answer": 3}, "wanted a letter or an index of one of 3"),
        ({**rows.CHOICES, "choices": "red"}, "column choices: wanted a list of texts"),
        ({**rows.CHOICES, "choices": ["1"], "answer": 0}, "wanted 2 to 26 choices"),
    ],
)
def test_malformed_rows(tmp_path, row, message):
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 1: .*{message}"):
        read(tmp_path, row)
