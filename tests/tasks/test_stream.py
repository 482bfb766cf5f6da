"""Which tasks a step gets: a function of (seed, step) and of nothing before it."""

import collections

import pytest

from rlvr_jax import tasks


def rows(count):
    return [
        tasks.Task(id=f"t/{number}", kind="math", prompt=str(number))
        for number in range(count)
    ]


def ids(stream, step, count):
    return [task.id for task in stream.batch(step, count)]


def test_each_epoch_holds_every_task_once_in_another_order():
    stream = tasks.DatasetStream(rows(7), seed=3)
    # Steps of 3 reach over the ends of epochs of 7.
    order = [name for step in range(14) for name in ids(stream, step, 3)]
    epochs = [order[start : start + 7] for start in range(0, 42, 7)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 3


def test_a_step_does_not_depend_on_the_steps_before():
    straight = tasks.DatasetStream(rows(7), seed=3)
    expected = [ids(straight, step, 3) for step in range(9)]
    for step in (8, 2, 0, 5):
        assert ids(tasks.DatasetStream(rows(7), seed=3), step, 3) == expected[step]
        assert ids(straight, step, 3) == expected[step]


def test_the_seed_decides_the_order():
    first = ids(tasks.DatasetStream(rows(20), seed=0), 0, 20)
    assert ids(tasks.DatasetStream(rows(20), seed=1), 0, 20) != first
    assert sorted(first) == sorted(task.id for task in rows(20))


def test_a_step_larger_than_the_data_set_takes_tasks_several_times():
    counts = collections.Counter(ids(tasks.DatasetStream(rows(3), seed=0), 4, 6))
    assert set(counts.values()) == {2}


def test_an_empty_data_set_is_refused():
    with pytest.raises(ValueError, match="no task left to train on"):
        tasks.DatasetStream([], seed=0)


def test_programs_go_on_where_the_last_step_ended():
    stream = tasks.ProgramStream(seed=5, levels=(1.0, 2.0, 2.0))
    expected = tasks.synthesize(
        seed=5, start=6, count=4, split="train", levels=(1.0, 2.0, 2.0)
    )
    assert stream.batch(3, 2) + stream.batch(4, 2) == expected
    other = tasks.ProgramStream(seed=6, levels=(1.0, 2.0, 2.0))
    assert other.batch(3, 2) != stream.batch(3, 2)
    hard = tasks.ProgramStream(seed=5, levels=(0.0, 0.0, 1.0))
    assert {task.metadata["level"] for task in hard.batch(0, 8)} == {3}
