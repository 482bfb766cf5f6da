"""Procedural program synthesis: guess a function of x from four of its values.

The stream of tasks is unlimited and a pure function of (seed, split, index). The split
is decided by the examples that a prompt shows: no prompt of one split is a prompt of
the other, while both have the same functions.
"""

import bisect
import functools
import hashlib
import itertools
import math
import random
from collections.abc import Sequence

from rlvr_jax.tasks import families
from rlvr_jax.tasks.records import Task

# Where the visible arguments come from, one each, shown in this order: 0 and 1 give
# away offsets and slopes, the outer ones show most kinks (max, abs).
VISIBLE_STRATA = (range(-9, -1), (0,), (1,), range(2, 10))
HIDDEN_TESTS = 6
SPLITS = ("train", "heldout")
HELDOUT_PERIOD = 5  # one prompt in five is held out


def synthesize(
    *,
    seed: int,
    start: int,
    count: int,
    split: str,
    levels: Sequence[float] = (2.0, 1.0, 0.0),
) -> list[Task]:
    """Tasks start .. start + count - 1 of the stream named by (seed, split, levels).

    Args:
        seed: any int; names the stream.
        start: index of the first task, >= 0.
        count: number of tasks, >= 0.
        split: "train" or "heldout"; no task of one shows the examples of a task of
            the other.
        levels: relative shares of the difficulty levels 1 (one operation, `x//2`),
            2 (`x%3+1`) and 3 (`2*max(x,1)-3`); >= 0, not all 0.

    Returns:
        Tasks of kind "programs". `tests` holds ten (argument, expected) pairs of ints
        with distinct arguments, the four of `visible_tests` first; the prompt shows
        these four as "f(-4)=-10 f(0)=2 ...". `answer` is an expression in x.

    Raises:
        ValueError: an argument is outside its range.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
    if start < 0 or count < 0:
        raise ValueError(f"start and count must be >= 0, got {start} and {count}")
    if len(levels) != 3 or min(levels) < 0 or not 0 < sum(levels) < float("inf"):
        raise ValueError(
            "levels must be three shares >= 0 (levels 1, 2, 3), one of them > 0,"
            f" got {levels!r}"
        )
    return [_task(seed, index, split, levels) for index in range(start, start + count)]


def longest_prompts(levels: Sequence[float]) -> list[str]:
    """The longest prompt of each hidden function, in characters.

    Args:
        levels: as in `synthesize`.

    Returns:
        One prompt per function of the levels whose share is above 0. Some of them, with
        four equal values, are never drawn.
    """
    prompts = []
    for function in families.functions():
        if not levels[function.level - 1]:
            continue
        shown = [
            max(_examples(function, stratum), key=len) for stratum in VISIBLE_STRATA
        ]
        prompts.append(" ".join(shown))
    return prompts


def _examples(function: families.Function, arguments: Sequence[int]) -> list[str]:
    return [f"f({x})={function.value(x)}" for x in arguments]


def _task(seed: int, index: int, split: str, levels: Sequence[float]) -> Task:
    # Of `random`, only seeding by a string and random() are the same in all Pythons.
    uniform = random.Random(f"{seed}/{split}/{index}").random
    while True:  # Ends: both splits have prompts of every function.
        function = _draw_function(uniform, levels)
        visible = _draw_visible(uniform, function)
        if _split(function, visible) == split:
            break
    rest = [x for x in families.DOMAIN if x not in visible]
    hidden = _draw_distinct(uniform, rest, HIDDEN_TESTS)
    tests = tuple((x, function.value(x)) for x in visible + hidden)
    shown = tests[: len(visible)]
    return Task(
        id=f"programs/{split}/{seed}/{index}-{function.digest[:8]}",
        kind="programs",
        prompt=" ".join(_examples(function, visible)),
        answer=function.expression,
        tests=tests,
        visible_tests=shown,
        entry_point="f",
        metadata={
            "family": function.family,
            "level": function.level,
            "parameters": ("x",),
        },
    )


def _split(function: families.Function, visible: Sequence[int]) -> str:
    """Returns the split of a prompt, which its examples decide, whatever the seed."""
    shown = repr([(x, function.value(x)) for x in visible])
    number = int(hashlib.sha256(shown.encode()).hexdigest()[:8], 16)
    return "heldout" if number % HELDOUT_PERIOD == 0 else "train"


def _draw_function(uniform, levels: Sequence[float]) -> families.Function:
    # Not sum(): Python 3.12 changed how it rounds.
    level = 1 + _draw_index(uniform, list(itertools.accumulate(levels)))
    members, bounds = _members(level)
    return _draw(uniform, members[_draw_index(uniform, bounds)])


@functools.cache
def _members(level: int) -> tuple[list[list[families.Function]], list]:
    """Returns the functions of each family, and the bounds of the families' shares."""
    members: dict[str, list[families.Function]] = {}
    for function in families.functions():
        if function.level == level:
            members.setdefault(function.family, []).append(function)
    # Between equal families (few functions) and equal functions (three families).
    roots = [math.sqrt(len(some)) for some in members.values()]
    return list(members.values()), list(itertools.accumulate(roots))


def _draw_index(uniform, bounds: Sequence[float]) -> int:
    """Returns i with a probability proportional to bounds[i] - bounds[i - 1]."""
    return bisect.bisect_right(bounds, uniform() * bounds[-1])


def _draw_visible(uniform, function: families.Function) -> list[int]:
    """Returns one argument per stratum, ascending, with unequal values."""
    while True:  # Ends: no value of a function covers all the strata.
        visible = [_draw(uniform, stratum) for stratum in VISIBLE_STRATA]
        if len({function.value(x) for x in visible}) > 1:
            return visible


def _draw(uniform, items: Sequence):
    return items[int(uniform() * len(items))]


def _draw_distinct(uniform, items: Sequence, count: int) -> list:
    """Returns `count` items in random order, none twice (a partial shuffle)."""
    items = list(items)
    for i in range(count):
        j = i + int(uniform() * (len(items) - i))
        items[i], items[j] = items[j], items[i]
    return items[:count]
