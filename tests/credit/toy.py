"""A tabular policy whose rollout groups are few enough to be listed one by one.

An attempt draws one of A answers from the softmax of its context's logits. A context is
the history of failed answers, so a policy may answer each history differently. The
verifier grades an answer; the grade gives the reward and decides on another turn. Every
outcome of a whole group becomes one row, so an estimator is averaged exactly: float64
probabilities, float32 advantages from the kernels.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.tree import TreeLayout

ROWS = 10_000  # no toy here has more outcomes

Rule = Callable[[jax.Array, TreeLayout, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Toy:
    """`grades[s][a][g]` is P(grade g | answer a on turn s), `rewards[g]` its reward;
    `retries[a][g]` says whether that answer with that grade is asked again."""

    branching: tuple[int, ...]
    grades: tuple
    rewards: tuple[float, ...]
    retries: tuple

    @property
    def layout(self) -> TreeLayout:
        return TreeLayout(branching=self.branching)

    @property
    def num_answers(self) -> int:
        return len(self.retries)

    @property
    def turns(self) -> np.ndarray:
        """The turn of each context, [C]."""
        widths = [self.num_answers**s for s in range(len(self.branching))]
        return np.repeat(np.arange(len(widths)), widths)


def gated(branching: tuple[int, ...], num_answers: int = 2) -> Toy:
    """Answer 0 is right (reward 1, no further turn); the others fail and retry."""
    grade = tuple((0.0, 1.0) if a == 0 else (1.0, 0.0) for a in range(num_answers))
    return Toy(
        branching=branching,
        grades=(grade,) * len(branching),
        rewards=(0.0, 1.0),
        retries=((True, False),) * num_answers,
    )


def _context(toy: Toy, turn: int, history: int) -> int:
    return sum(toy.num_answers**s for s in range(turn)) + history


def _product(blocks: list[np.ndarray]) -> np.ndarray:
    """All ways to join one row of each block."""
    rows = np.zeros((1, 0), np.int32)
    for block in blocks:
        left = np.repeat(rows, len(block), axis=0)
        rows = np.hstack([left, np.tile(block, (len(rows), 1))])
    return rows


def _slots(toy: Toy, turn: int) -> list[int]:
    """Turns of the slots of one subtree, depth-first."""
    if turn == len(toy.branching):
        return []
    below = _slots(toy, turn + 1)
    width = toy.branching[turn + 1] if turn + 1 < len(toy.branching) else 0
    return [turn, *(below * width)]


def _subtrees(toy: Toy, turn: int, history: int) -> np.ndarray:
    """Every outcome of a node and what follows it, depth-first: codes, -1 = absent."""
    grade_count, size = len(toy.rewards), len(_slots(toy, turn)) - 1
    blocks = []
    for a, g in itertools.product(range(toy.num_answers), range(grade_count)):
        if toy.grades[turn][a][g] == 0:
            continue
        below = np.full((1, size), -1, np.int32)
        if turn + 1 < len(toy.branching) and toy.retries[a][g]:
            child = _subtrees(toy, turn + 1, history * toy.num_answers + a)
            below = _product([child] * toy.branching[turn + 1])
        step = (_context(toy, turn, history) * toy.num_answers + a) * grade_count + g
        own = np.full((len(below), 1), step, np.int32)
        blocks.append(np.hstack([own, below]))
    return np.vstack(blocks)


@functools.cache
def outcomes(toy: Toy) -> np.ndarray:
    """Every outcome of a group, [B, N] in the layout's slots: (context, answer, grade)
    as one code, -1 where there is no node."""
    rows = _product([_subtrees(toy, 0, 0)] * toy.branching[0])
    turns = _slots(toy, 0) * toy.branching[0]
    return rows[:, np.argsort(turns, kind="stable")]


def probabilities(toy: Toy, policy):
    """P(outcome), [B], for answer probabilities `policy` [C, A] (NumPy or JAX)."""
    grades = np.asarray(toy.grades)[toy.turns]
    steps = (policy[:, :, None] * grades).reshape(-1)
    codes = outcomes(toy)
    one = np.ones(1)
    table = (np if isinstance(policy, np.ndarray) else jnp).concatenate([steps, one])
    return table[np.where(codes < 0, len(steps), codes)].prod(axis=1)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def rows_of(toy: Toy, sharing: str) -> np.ndarray:
    """Which row of the parameters each context reads, [C].

    `history`: a row per history; `stage`: a row per attempt; `shared`: one row.
    """
    return {
        "history": np.arange(len(toy.turns)),
        "stage": toy.turns,
        "shared": np.zeros_like(toy.turns),
    }[sharing]


def padded(rewards, layout, mask):
    """Empty rows up to one fixed number: JAX compiles a kernel once for each layout."""
    extra = ((0, ROWS - len(mask)), (0, 0))
    return np.pad(rewards, extra), layout, np.pad(mask, extra)


def expected_gradient(
    toy: Toy, theta: np.ndarray, sharing: str, rule: Rule
) -> np.ndarray:
    """E[sum over nodes of A grad log p(answer)] / G_1, shaped as `theta`."""
    rows = rows_of(toy, sharing)
    policy, codes = softmax(theta[rows]), outcomes(toy)
    mask = codes >= 0
    rewards = np.asarray(toy.rewards, np.float32)[codes % len(toy.rewards)]
    rewards = np.where(mask, rewards, np.float32(np.nan))
    advantages = np.asarray(rule(*padded(rewards, toy.layout, mask)), np.float64)
    advantages = advantages[: len(codes)]
    weighted = probabilities(toy, policy)[:, None] * advantages
    pushed = np.bincount(
        codes[mask] // len(toy.rewards), weighted[mask], minlength=policy.size
    ).reshape(policy.shape)
    # d log softmax: the answer's own logit less the policy.
    by_context = pushed - policy * pushed.sum(axis=1, keepdims=True)
    gradient = np.zeros_like(theta)
    np.add.at(gradient, rows, by_context)
    return gradient / toy.branching[0]


def gradient_of(
    toy: Toy, theta: np.ndarray, sharing: str, objective: Callable
) -> np.ndarray:
    """`jax.grad` of `objective(toy, policy)` in float64, shaped as `theta`."""
    rows = rows_of(toy, sharing)

    def value(parameters):
        return objective(toy, jax.nn.softmax(parameters[rows]))

    with jax.enable_x64(True):
        return np.asarray(jax.grad(value)(jnp.asarray(theta, jnp.float64)))


def _recursion(toy: Toy, policy, right: Callable, wrong: Callable):
    """V(history) = p right(turn) + sum over failed answers of wrong(turn, pi, V(next)).

    After the last turn V is 0. One array per turn, the last turn first.
    """
    later = np.zeros(toy.num_answers ** len(toy.branching))
    for turn in reversed(range(len(toy.branching))):
        start = _context(toy, turn, 0)
        answers = policy[start : start + toy.num_answers**turn]
        after = later.reshape(answers.shape)
        failed = wrong(turn, answers[:, 1:], after[:, 1:])
        later = answers[:, 0] * right(turn) + failed.sum(axis=1)
    return later[0]


def solved_at_last(toy: Toy, policy):
    """P(the first attempt or anything below it solves): Ver@K on chains."""
    width = (*toy.branching[1:], 1)
    return _recursion(
        toy, policy, lambda s: 1.0, lambda s, pi, v: pi * (1 - (1 - v) ** width[s])
    )


def expected_failures(toy: Toy, policy):
    """E[number of failed attempts] of a chain of at most K attempts."""
    return _recursion(toy, policy, lambda s: 0.0, lambda s, pi, v: pi * (1 + v))


def inverse_attempts(toy: Toy, policy):
    """E[1 / tau; solved] of a chain: the mean reward of one rollout's attempts."""
    return _recursion(toy, policy, lambda s: 1 / (s + 1), lambda s, pi, v: pi * v)


def mean_backup(toy: Toy, policy, discount: float):
    """E[MeRS return of a first attempt]."""
    left = len(toy.branching)
    return _recursion(
        toy, policy, lambda s: 1.0, lambda s, pi, v: pi * discount * v / (left - s)
    )


def own_attempts(toy: Toy, policy):
    """Its gradient is sum over attempts of P(reached) grad p: who gets there is fixed.

    A field, in general the gradient of nothing.
    """
    return _recursion(
        toy, policy, lambda s: 1.0, lambda s, pi, v: jax.lax.stop_gradient(pi) * v
    )


def pooled_mean(toy: Toy, policy):
    """E[mean reward over all attempts of all rollouts of a group]."""
    codes = outcomes(toy)
    rewards = np.where(codes < 0, 0, np.asarray(toy.rewards)[codes % len(toy.rewards)])
    means = rewards.sum(axis=1) / (codes >= 0).sum(axis=1)
    return (probabilities(toy, policy) * means).sum()


def pass_at(k: int):
    """P(at least one of k independent first attempts solves)."""
    return lambda toy, policy: 1 - (1 - policy[0, 0]) ** k


def truncated_likelihood(order: int):
    """log p expanded at p = 1 up to (1 - p)^order."""
    return lambda toy, policy: (
        -sum((1 - policy[0, 0]) ** k / k for k in range(1, order + 1))
    )
