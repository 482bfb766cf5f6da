"""Metrics of hand-made trees, and the file they go to."""

import json

import numpy as np
import pytest

from rlvr_jax import metrics, tree


def hand_made():
    """Two prompts, two attempts each with one retry slot.

    Prompt 0: attempt 0 unsolved with a solved retry; attempt 1 solved. Prompt 1:
    attempt 0 unsolved with a retry that repeats it; attempt 1 without a verdict.
    """
    grown = tree.empty_tree(
        tree.TreeLayout((2, 1)),
        num_prompts=2,
        prompt_length=1,
        response_length=3,
        feedback_length=1,
    )
    grown.context_mask[:] = [[1, 1, 1, 0], [1, 1, 1, 0]]
    grown.node_mask[:] = [[1, 1, 1, 0], [1, 0, 1, 0]]
    grown.rewards[:] = [[0.5, 1, 1, 9], [0, 9, 0, 9]]
    grown.solved[:] = [[0, 1, 1, 1], [0, 1, 0, 1]]
    grown.truncated[:] = [[1, 0, 0, 1], [0, 1, 0, 1]]
    grown.response_lengths[:] = [[3, 1, 2, 7], [2, 2, 2, 7]]
    # Padding holds junk, which must not be read.
    grown.response_tokens[:] = -7
    grown.response_tokens[0, :3] = [[4, 5, 6], [4, 8, 8], [4, 5, 1]]
    grown.response_tokens[1, :3] = [[4, 5, 2], [6, 6, 3], [4, 5, 9]]
    return grown


def test_tree_metrics_by_hand():
    entropies = np.array([[3, 1, 2, 50], [2, 1, 3, 50]], np.float32)
    values = metrics.tree_metrics(hand_made(), entropies)
    rewards = [0.5, 1, 1, 0, 0]
    expected = {
        "reward/mean": 0.5,
        "reward/std": np.std(rewards),
        "solved/tree": 0.5,
        "response/length": 12 / 6,
        "response/truncated": 2 / 6,
        "policy/entropy": 12 / 12,
        "tokens/sampled": 12,
        "groups/lost": 1,
        "solved/turn_1": 1 / 3,
        "solved/turn_2": 1 / 2,
        "retry/repeat_rate": 1 / 2,
    }
    assert values == pytest.approx(expected)


def test_a_retry_that_adds_the_padding_token_repeats_nothing():
    grown = hand_made()
    # Token 0 is a token like any other: [4] and [4, 0] are two responses.
    grown.response_tokens[:] = 0
    grown.response_tokens[:, :, 0] = 4
    grown.response_lengths[:, 2] = 1
    grown.response_lengths[:, 0] = 2
    values = metrics.tree_metrics(grown, np.zeros((2, 4), np.float32))
    assert values["retry/repeat_rate"] == 0.0


def test_metrics_of_a_rollout_that_nobody_could_grade():
    grown = hand_made()
    grown.node_mask[:] = False
    values = metrics.tree_metrics(grown, np.zeros((2, 4), np.float32))
    assert values["groups/lost"] == 6
    assert values["reward/mean"] == values["solved/tree"] == 0.0
    assert "solved/turn_1" not in values


def test_statuses_are_counted_also_where_there_are_none():
    statuses = ["passed", "infrastructure", "passed"]
    assert metrics.status_metrics(
        statuses, ("passed", "abstained", "infrastructure")
    ) == {"verify/passed": 2, "verify/abstained": 0, "verify/infrastructure": 1}


def test_bad_values_are_named():
    values = {"grad/norm": np.nan, "loss/policy": np.inf, "reward/mean": 0.0}
    with pytest.raises(FloatingPointError, match=r"step 3: grad/norm, loss/policy not"):
        metrics.check_finite(values, 3)
    metrics.check_finite({"reward/mean": 0.0}, 3)


def steps_of(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_file_is_one_object_per_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = metrics.MetricsFile(path)
    file.write(0, {"b/x": np.float32(0.5), "a/y": 2})
    file.write(1, {"b/x": 1})
    assert path.read_text() == (
        '{"step": 0, "a/y": 2.0, "b/x": 0.5}\n{"step": 1, "b/x": 1.0}\n'
    )


def test_a_continued_file_drops_the_steps_that_come_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = metrics.MetricsFile(path)
    for step in range(12):
        file.write(step, {"a/x": step})
    metrics.MetricsFile(path, last_step=9).write(10, {"a/x": -1.0})
    assert steps_of(path) == list(range(11))
    assert '"a/x": -1.0' in path.read_text()
    metrics.MetricsFile(path)
    assert steps_of(path) == []


def test_a_line_that_a_killed_run_left_half_written_is_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = metrics.MetricsFile(path)
    for step in range(4):
        file.write(step, {"a/x": step})
    path.write_text(path.read_text()[:-7])
    metrics.MetricsFile(path, last_step=2).write(3, {"a/x": 3.0})
    assert steps_of(path) == [0, 1, 2, 3]


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0}\nnot JSON\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: not a row of metri"):
        metrics.MetricsFile(path, last_step=2)
    assert "not JSON" in path.read_text()
