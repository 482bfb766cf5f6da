"""Rollout files: one line per attempt, whatever became of it."""

import json

import numpy as np
import pytest

from rlvr_jax.credit import Credit
from rlvr_jax.envs import Verdict
from rlvr_jax.rollout import Rollout
from rlvr_jax.tasks import Task
from rlvr_jax.training.records import write_rollouts
from rlvr_jax.tree import TreeLayout, empty_tree


@pytest.fixture
def grown():
    """One prompt, two attempts: one solved, one retried twice; a retry is lost."""
    tree = empty_tree(
        TreeLayout((2, 2)),
        num_prompts=1,
        prompt_length=1,
        response_length=4,
        feedback_length=1,
    )
    tree.context_mask[0, [0, 1, 4, 5]] = True
    tree.node_mask[0, [0, 1, 4]] = True
    tree.response_lengths[0, [0, 1, 4, 5]] = [1, 2, 3, 4]
    tree.truncated[0, 5] = True
    verdicts = {
        0: Verdict(1.0, True, "", "passed", 2, 2, True),
        1: Verdict(0.5, False, "no", "failed", 1, 2, False),
        4: Verdict(1.0, True, "", "passed", 2, 2, True),
        5: Verdict(None, False, "", "infrastructure", 0, 2),
    }
    return Rollout(
        tree=tree,
        tasks=[Task("t/0", "programs", "f(1)=2")],
        texts=[{0: "x+1", 1: "x+2", 4: "2*x", 5: "é"}],
        feedback=[{1: "no"}],
        verdicts=[verdicts],
        entropies=np.zeros((1, 6), np.float32),
        seconds={},
    )


@pytest.fixture
def rows(grown, tmp_path):
    credit = Credit(
        returns=np.array([[1.0, 0.75, 9.0, 9.0, 1.0, 0.0]]),
        advantages=np.array([[0.5, -0.5, 9.0, 9.0, 0.0, 0.0]]),
        keep_mask=np.array([[True, True, False, False, False, False]]),
    )
    path = tmp_path / "step_3.jsonl"
    path.write_text("what was here before")
    write_rollouts(path, step=3, grown=grown, assigned=credit)
    return [json.loads(line) for line in path.read_text().splitlines()]


def column(rows, name):
    return [row[name] for row in rows]


def test_one_line_per_sampled_attempt_in_the_order_of_slots(rows):
    assert column(rows, "node") == [0, 1, 4, 5]
    assert column(rows, "parent") == [None, None, 1, 1]
    assert column(rows, "turn") == [1, 1, 2, 2]
    assert {(row["step"], row["task"]) for row in rows} == {(3, "t/0")}


def test_prompts_stand_at_the_roots_and_feedback_where_it_was_given(rows):
    assert column(rows, "prompt") == ["f(1)=2", "f(1)=2", None, None]
    assert column(rows, "feedback") == [None, "no", None, None]
    assert column(rows, "response") == ["x+1", "x+2", "2*x", "é"]


def test_verdicts_and_credit(rows):
    assert column(rows, "reward") == [1.0, 0.5, 1.0, None]
    assert column(rows, "solved") == [True, False, True, False]
    assert column(rows, "status") == ["passed", "failed", "passed", "infrastructure"]
    assert column(rows, "return") == [1.0, 0.75, 1.0, 0.0]
    assert column(rows, "advantage") == [0.5, -0.5, 0.0, 0.0]
    assert column(rows, "kept") == [True, True, False, False]


def test_lengths(rows):
    assert column(rows, "tokens") == [1, 2, 3, 4]
    assert column(rows, "truncated") == [False, False, False, True]
