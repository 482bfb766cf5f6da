"""Which tasks stay: bounds on the difficulty, and equal prompts once."""

import pytest

from rlvr_jax import tasks


def task(name, prompt="p", **metadata):
    return tasks.Task(id=name, kind="math", prompt=prompt, metadata=metadata)


def test_bounds_are_kept_and_the_rest_is_counted():
    rows = [task(str(i), difficulty=i / 8) for i in range(9)]
    kept, left_out = tasks.within_difficulty(rows, 0.25, 0.5)
    assert [row.id for row in kept] == ["2", "3", "4"]
    assert left_out == 6
    assert tasks.within_difficulty(rows, 0.0, 1.0) == (rows, 0)


def test_fractions_as_other_trainers_write_them():
    rows = [task("a", difficulty="1/8"), task("b", difficulty="7/8"), task("c")]
    kept, _ = tasks.within_difficulty(rows[:2], 0.5, 1.0)
    assert kept == rows[1:2]
    message = r"task c: metadata: difficulty: wanted .* got None; without it, set no"
    with pytest.raises(ValueError, match=message):
        tasks.within_difficulty(rows, 0.5, 1.0)


def test_prompts_that_differ_in_white_space_are_equal():
    def messages(*contents):
        return [{"role": "user", "content": content} for content in contents]

    rows = [
        task("a", "1 + 1\n=  "),
        task("b", "1 + 1 ="),
        task("c", "1 + 1 = ?"),
        task("d", messages("1 + 1 =")),
        task("e", messages(" 1 + 1\t=")),
        task("f", messages("1 +", "1 =")),
        task("g", [{"role": "system", "content": "1 + 1 ="}]),
    ]
    kept, left_out = tasks.without_duplicates(rows)
    assert [row.id for row in kept] == ["a", "c", "d", "f", "g"]
    assert left_out == 2
