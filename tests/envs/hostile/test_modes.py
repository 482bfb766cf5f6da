"""The same programs where tests run beside them, and against pairs of integers.

By default those that end at once; all: `pytest -m slow tests/envs/hostile`.
"""

import dataclasses

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.code.needs import one_jail
from rlvr_jax.tasks.records import Task
from tests.envs.hostile import suite
from tests.envs.hostile.attack import TASK

# A name of the solution that is not called: such tests run in one process with it.
ONE_JAIL = dataclasses.replace(TASK, id="one jail", setup="g = f")
PAIRS = Task(
    id="pairs",
    kind="programs",
    prompt="",
    tests=((1, 424243), (2, 424244)),
    visible_tests=((1, 424243),),
    entry_point="f",
)
# Forging that sandbox/together.py says it does not cover: half of the reward.
NOT_COVERED = {"walks the collector"}
ALL = [(theme, a) for theme, a in suite.all_attacks() if theme != "whole programs"]
QUICK = [
    (theme, attack)
    for theme, attack in ALL
    if theme not in ("exhaustion", "floods") and "timeout" not in attack.statuses
]


def gained(kind: str, task: Task, attacks: list) -> tuple[set[str], list]:
    """Names of the attacks that gained something; neighbours that were disturbed."""
    pairs, wanted = [], []
    for number, (_, attack) in enumerate(attacks):
        (_, good), verdict = suite.neighbour(number)
        pairs += [(task, attack.source), (task, good)]
        wanted.append(verdict)
    with envs.make_verifier(kind, workers=4, limits=suite.LIMITS) as verifier:
        verdicts = verifier.verify(pairs)
    found = {
        attack.name
        for (_, attack), verdict in zip(attacks, verdicts[::2], strict=True)
        if verdict.solved or verdict.passed or verdict.reward != 0.0
    }
    disturbed = [
        (pair[1], wanted, verdict)
        for pair, wanted, verdict in zip(
            pairs[1::2], wanted, verdicts[1::2], strict=True
        )
        if (verdict.status, verdict.passed) != wanted
    ]
    return found, disturbed


def test_one_jail():
    assert one_jail(ONE_JAIL)
    found, disturbed = gained("code", ONE_JAIL, QUICK)
    assert found <= NOT_COVERED
    assert disturbed == []


@pytest.mark.slow
def test_one_jail_and_every_attack():
    found, disturbed = gained("code", ONE_JAIL, ALL)
    assert found <= NOT_COVERED
    assert disturbed == []


def test_pairs():
    # The neighbours return a list for 2, which is no right answer here.
    found, disturbed = gained("programs", PAIRS, QUICK)
    assert found == set()
    assert {(verdict.status, verdict.passed) for *_, verdict in disturbed} <= {
        ("failed", 1)
    }


@pytest.mark.slow
def test_pairs_and_every_attack():
    assert gained("programs", PAIRS, ALL)[0] == set()
