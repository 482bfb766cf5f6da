"""Arithmetic tasks: right answers, and splits that share no operand pair."""

import itertools

import pytest

from rlvr_jax.tasks import arithmetic_tasks
from rlvr_jax.tasks.arithmetic import OPERATIONS


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_held_out_is_nowhere_in_training(name):
    train = arithmetic_tasks(f"{name}:train")
    held_out = arithmetic_tasks(f"{name}:heldout")
    pairs = [{frozenset(t.metadata["operands"]) for t in s} for s in (train, held_out)]
    example = {frozenset(OPERATIONS[name].example)}
    assert pairs[0].isdisjoint(pairs[1])
    assert example.isdisjoint(pairs[0] | pairs[1])
    # Nothing is lost either: every other pair of the range is in one of the two.
    operation = OPERATIONS[name]
    operands = range(operation.low, operation.high + 1)
    every = {frozenset(pair) for pair in itertools.product(operands, operands)}
    assert pairs[0] | pairs[1] | example == every
    assert len(pairs[1]) == len(pairs[0] | pairs[1]) // 4
    # No prompt of one split is asked or shown in the other.
    questions = {task.prompt[-1]["content"] for task in held_out}
    shown = {turn["content"] for task in train for turn in task.prompt}
    assert questions.isdisjoint(shown)


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_and_ids(name):
    tasks = arithmetic_tasks(f"{name}:train") + arithmetic_tasks(f"{name}:heldout")
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks:
        a, sign, b, _ = task.prompt[-1]["content"].split()
        right = int(a) + int(b) if sign == "+" else int(a) * int(b)
        assert (task.kind, task.answer) == ("arithmetic", str(right))
        assert task.metadata["operands"] == (int(a), int(b))


def test_the_prompt_shows_one_example():
    task = arithmetic_tasks("two_digit_addition:train")[0]
    a, b = task.metadata["operands"]
    assert task.prompt == [
        {"role": "user", "content": "23 + 45 ="},
        {"role": "assistant", "content": "23 + 45 = 68"},
        {"role": "user", "content": f"{a} + {b} ="},
    ]


def test_the_order_is_mixed_and_always_the_same():
    tasks = arithmetic_tasks("two_digit_addition:heldout")
    firsts = [task.metadata["operands"][0] for task in tasks]
    assert firsts != sorted(firsts)
    assert [task.answer for task in tasks[:4]] == ["162", "89", "107", "90"]
    assert tasks == arithmetic_tasks("two_digit_addition:heldout")


@pytest.mark.parametrize("name", ["", "addition:train", "one_digit_addition:test"])
def test_unknown_names(name):
    message = rf"wanted OPERATION:SPLIT with one of one_digit_.*; got {name!r}"
    with pytest.raises(ValueError, match=message):
        arithmetic_tasks(name)
