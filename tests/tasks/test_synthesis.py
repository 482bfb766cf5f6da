"""Program synthesis tasks: a pure stream, right pairs, a split by prompts."""

import collections
import hashlib

import pytest

from rlvr_jax.tasks import families, longest_prompts, synthesize
from rlvr_jax.tasks.synthesis import SPLITS

GOLDEN = [
    ("programs/heldout/17/2-906a0d36", "f(-9)=-3 f(0)=0 f(1)=0 f(5)=1", "x//3"),
    (
        "programs/heldout/17/3-43b77d45",
        "f(-6)=-6 f(0)=-3 f(1)=-3 f(2)=-3",
        "min(x,-3)",
    ),
]


def test_stream_does_not_depend_on_how_it_is_cut():
    whole = synthesize(seed=3, start=0, count=40, split="train")
    parts = [
        *synthesize(seed=3, start=0, count=7, split="train"),
        *synthesize(seed=3, start=7, count=33, split="train"),
    ]
    assert whole == parts
    assert synthesize(seed=3, start=10**9, count=1, split="train")


def test_stream_is_the_same_in_every_python():
    # Golden: a change here changes the data of every run, and of the shipped model.
    tasks = synthesize(seed=17, start=2, count=2, split="heldout")
    assert [(task.id, task.prompt, task.answer) for task in tasks] == GOLDEN


def test_seeds_and_splits_are_different_streams():
    streams = [
        [task.prompt for task in synthesize(seed=seed, start=0, count=5, split=split)]
        for seed, split in [(0, "train"), (1, "train"), (0, "heldout")]
    ]
    assert streams[0] != streams[1] != streams[2] != streams[0]


@pytest.mark.parametrize("split", SPLITS)
def test_tests_are_values_of_the_reference(split):
    for task in synthesize(seed=0, start=0, count=300, split=split):
        assert task.kind == "programs"
        assert task.entry_point == "f"
        assert task.metadata["parameters"] == ("x",)
        assert f"programs/{split}/0/" in task.id
        arguments = [x for x, _ in task.tests]
        assert len(set(arguments)) == len(arguments) == 10
        assert task.visible_tests == task.tests[:4]
        reference = eval(f"lambda x: {task.answer}")
        assert all(reference(x) == y for x, y in task.tests)
        assert task.prompt == " ".join(f"f({x})={y}" for x, y in task.visible_tests)


@pytest.mark.parametrize("levels", [(1, 0, 0), (0, 0, 1)])
def test_no_prompt_is_longer_than_the_longest(levels):
    bound = max(map(len, longest_prompts(levels)))
    drawn = synthesize(seed=2, start=0, count=2000, split="train", levels=levels)
    longest = max(len(task.prompt) for task in drawn)
    # Near: the bound is not just any large number.
    assert bound - 2 <= longest <= bound


def test_visible_values_are_never_all_equal():
    for task in synthesize(seed=1, start=0, count=2000, split="train"):
        assert len({y for _, y in task.visible_tests}) > 1


def test_visible_arguments_are_spread_and_ordered():
    lows = collections.Counter()
    for task in synthesize(seed=1, start=0, count=500, split="train"):
        low, *anchors, high = [x for x, _ in task.visible_tests]
        assert -9 <= low <= -2 and anchors == [0, 1] and 2 <= high <= 9
        lows[low] += 1
    assert min(lows.values()) > 30  # 62 expected at each of eight arguments


def test_each_behaviour_has_one_function():
    functions = families.functions()
    assert len({function.outputs for function in functions}) == len(functions)
    for function in functions:
        outputs = tuple(map(eval(f"lambda x: {function.expression}"), range(-20, 21)))
        assert function.outputs == outputs
        assert function.digest == hashlib.sha256(repr(outputs).encode()).hexdigest()


def test_another_spelling_adds_no_function():
    spellings = collections.defaultdict(list)
    for family in families.FAMILIES:
        for expression in family.expressions():
            outputs = map(eval(f"lambda x: {expression}"), families.DOMAIN)
            spellings[tuple(outputs)].append((family.level, expression))
    # Of several spellings the simplest level and the first stays.
    assert sum(len(some) > 1 for some in spellings.values()) > 100
    for function in families.functions():
        level = min(level for level, _ in spellings[function.outputs])
        first = next(e for n, e in spellings[function.outputs] if n == level)
        assert (function.level, function.expression) == (level, first)


def test_no_prompt_is_in_both_splits():
    def prompts(split, seed):
        tasks = synthesize(seed=seed, start=0, count=4000, split=split)
        return {task.prompt for task in tasks}

    held_out = prompts("heldout", 5) | prompts("heldout", 6)
    assert len(held_out) > 1500
    assert not held_out & prompts("train", 5)
    assert not held_out & prompts("train", 6)


def test_levels_are_drawn_by_their_shares():
    def levels(shares):
        tasks = synthesize(seed=0, start=0, count=1000, split="train", levels=shares)
        return collections.Counter(task.metadata["level"] for task in tasks)

    assert levels((1, 0, 0)) == {1: 1000}
    assert levels((0, 0, 0.1)) == {3: 1000}
    counts = levels((3, 1, 0))
    assert set(counts) == {1, 2}
    assert 700 < counts[1] < 800


def test_levels_say_how_much_an_expression_holds():
    lengths = collections.defaultdict(list)
    for function in families.functions():
        lengths[function.level].append(len(function.expression))
    mean = {level: sum(values) / len(values) for level, values in lengths.items()}
    assert mean[1] < mean[2] < mean[3] < 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "test"}, "split must be one of .*'train', 'heldout'.*got 'test'"),
        ({"start": -1}, "start and count must be >= 0, got -1 and 1"),
        ({"count": -2}, "start and count must be >= 0, got 0 and -2"),
        ({"levels": (1, 1)}, "levels must be three shares"),
        ({"levels": (0, 0, 0)}, "one of them > 0"),
        ({"levels": (1, -1, 1)}, r"got \(1, -1, 1\)"),
        ({"levels": (1, float("nan"), 1)}, "levels must be three shares"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"seed": 0, "start": 0, "count": 1, "split": "train", **change}
    with pytest.raises(ValueError, match=message):
        synthesize(**arguments)
