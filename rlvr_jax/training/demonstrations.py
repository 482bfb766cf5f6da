"""Demonstrations for the supervised warm start: answers, mistakes, and their repair.

One demonstration is a small tree: its trunk is the text of the prompt, below it stand
the right answer and a mistake, and below the mistake, after the feedback that the
verifier would give, the right answer again, or a second mistake and then the right
answer. The trunk is imitated too: whoever predicts the next example knows the function.
"""

import dataclasses
import functools
import random
import re
from collections.abc import Sequence

import numpy as np

from rlvr_jax.envs.programs import judge_values
from rlvr_jax.tasks import Task, Tokenizer, families
from rlvr_jax.tree import RolloutTree, TreeLayout, empty_tree

LAYOUT = TreeLayout((1, 2, 2, 1))
# Slots: the prompt's text, the right answer, a mistake, its repair, a second mistake,
# the repair of both.
TRUNK, RIGHT, MISTAKE, REPAIR, SECOND, LAST = 0, 1, 2, 5, 6, 10

MOST_CHARACTERS = 20
_CONSTANT = re.compile(r"[+-]?\d+")
# Shares of the kinds of mistakes: a constant that is off, another function that agrees
# with some of the examples, any function.
_KINDS, _SHARES = ("constant", "similar", "any"), (0.55, 0.35, 0.1)


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer and what the verifier says about it."""

    text: str
    feedback: str


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """One task with its mistakes, one or two, in the order they are made."""

    task: Task
    mistakes: tuple[Mistake, ...]


def demonstrate(task: Task, *, seed: int, second_share: float) -> Demonstration:
    """Makes up the mistakes of one training task; a function of (task, seed).

    Args:
        task: a task of `tasks.synthesize(split="train")`.
        seed: any int.
        second_share: probability of a second mistake, in [0, 1].

    Returns:
        A demonstration whose mistakes fail at least one test.
    """
    rng = random.Random(f"{seed}/{task.id}")
    first = _mistake(rng, task, task.answer, ())
    mistakes = [first]
    if rng.random() < second_share:
        # People change what they wrote, so the second mistake stays close to the first.
        start = first.text if rng.random() < 0.5 else task.answer
        mistakes.append(_mistake(rng, task, start, (first.text,)))
    return Demonstration(task, tuple(mistakes))


def fill_tree(
    demonstrations: Sequence[Demonstration],
    tokenizer: Tokenizer,
    *,
    text_length: int,
    feedback_length: int,
) -> RolloutTree:
    """Demonstrations as one tree each; see `LAYOUT` for the slots.

    The tree's own prompt is the first token alone; the rest of the prompt is the trunk.

    Args:
        demonstrations: B of them.
        tokenizer: of the model.
        text_length: capacity of a prompt or an answer, tokens.
        feedback_length: capacity of what stands between attempts, tokens.

    Returns:
        `RolloutTree` with `node_mask` where a text stands.

    Raises:
        ValueError: something is longer than its capacity.
    """
    tree = empty_tree(
        LAYOUT,
        num_prompts=len(demonstrations),
        prompt_length=1,
        response_length=text_length,
        feedback_length=feedback_length,
    )
    for row, demonstration in enumerate(demonstrations):
        task, mistakes = demonstration.task, demonstration.mistakes
        first, *trunk = tokenizer.prompt_ids(task.prompt)
        tree.prompt_tokens[row], tree.prompt_lengths[row] = first, 1
        end = tokenizer.stop_ids[0]
        answer = [*tokenizer.encode(task.answer), end]
        wrong = [[*tokenizer.encode(mistake.text), end] for mistake in mistakes]
        nodes = [(TRUNK, trunk), (RIGHT, answer), (MISTAKE, wrong[0]), (REPAIR, answer)]
        notes = [(MISTAKE, mistakes[0].feedback)]
        if len(mistakes) == 2:
            nodes += [(SECOND, wrong[1]), (LAST, answer)]
            notes.append((SECOND, mistakes[1].feedback))
        for slot, ids in nodes:
            place = (row, slot)
            length = _put(tree.response_tokens[place], ids, "text_length")
            tree.response_lengths[place] = length
            tree.node_mask[place] = tree.context_mask[place] = True
            tree.solved[place] = slot not in (MISTAKE, SECOND)
        for slot, feedback in notes:
            ids = tokenizer.appendix_ids(feedback, closed=True)
            length = _put(tree.feedback_tokens[row, slot], ids, "feedback_length")
            tree.feedback_lengths[row, slot] = length
    return tree


def shares(
    tree: RolloutTree, *, mistake_share: float, trunk_share: float
) -> np.ndarray:
    """How much of each node is imitated, float32 [B, N] in [0, 1].

    The two first answers share a weight of 1: the mistake's part is the probability
    with which the model is taught to begin wrongly. Repairs weigh 1; a second mistake
    is context alone. A trunk weighs `trunk_share`.
    """
    weights = np.where(tree.node_mask & tree.solved, 1.0, 0.0).astype(np.float32)
    weights[:, TRUNK] = trunk_share
    weights[:, RIGHT] = 1.0 - mistake_share
    weights[:, MISTAKE] = mistake_share
    return weights


def _put(row: np.ndarray, ids: Sequence[int], capacity: str) -> int:
    if len(ids) > len(row):
        raise ValueError(
            f"{capacity} must hold every demonstration; got {len(row)} for {len(ids)}"
            " tokens: raise it"
        )
    row[: len(ids)] = ids
    return len(ids)


def _mistake(
    rng: random.Random, task: Task, start: str, taken: tuple[str, ...]
) -> Mistake:
    """A wrong answer that could be meant."""
    while True:
        kind = rng.choices(_KINDS, _SHARES)[0]
        if kind == "constant":
            text = _change_constant(rng, start)
        elif kind == "similar":
            text = _similar(rng, task)
        else:
            text = rng.choice(_functions(task.metadata["level"])).expression
        if len(text) > MOST_CHARACTERS or text in taken or text == start:
            continue
        function = _describe(text)
        if function is None:
            continue
        verdict = judge_values(task, [function.value(x) for x, _ in task.tests])
        if not verdict.solved:
            return Mistake(text, verdict.feedback)


def _change_constant(rng: random.Random, expression: str) -> str:
    """The expression with one constant off by a little; itself if there is none."""
    matches = list(_CONSTANT.finditer(expression))
    if not matches:
        return expression
    match = rng.choice(matches)
    old = match.group()
    value = int(old) + rng.choice((-3, -2, -1, -1, 1, 1, 2, 3))
    signed = old[0] in "+-" and match.start() > 0
    new = (
        f"{value:+d}" if signed and expression[match.start() - 1] != "," else f"{value}"
    )
    if signed and value == 0:
        new = ""
    return expression[: match.start()] + new + expression[match.end() :]


def _similar(rng: random.Random, task: Task) -> str:
    """Another function of the table, the likelier the more examples it agrees with."""
    arguments = [x - families.DOMAIN.start for x, _ in task.visible_tests]
    values = np.array([y for _, y in task.visible_tests])
    level = task.metadata["level"]
    agreeing = (_outputs(level)[:, arguments] == values).sum(axis=1)
    # By the number of examples it agrees with; 4 is a function that fails hidden tests.
    wanted = rng.choices((2, 3, 4), (0.3, 0.5, 0.2))[0]
    candidates = np.flatnonzero(agreeing == wanted)
    if not len(candidates):
        return task.answer
    return _functions(level)[rng.choice(candidates)].expression


@functools.cache
def _functions(level: int) -> list[families.Function]:
    """Functions that are no harder than `level`."""
    return [f for f in families.functions() if f.level <= level]


@functools.cache
def _outputs(level: int) -> np.ndarray:
    return np.array([f.outputs for f in _functions(level)])


@functools.lru_cache(maxsize=65536)
def _describe(expression: str) -> families.Function | None:
    try:
        return families.describe(expression)
    except (ArithmeticError, SyntaxError, TypeError):
        return None
