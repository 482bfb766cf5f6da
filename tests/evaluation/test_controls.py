"""Is feedback used? With a policy whose answers are known beforehand."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax import config as configs
from rlvr_jax.envs import Verdict
from rlvr_jax.evaluation import feedback_controls
from rlvr_jax.sampling import Samples
from rlvr_jax.tasks import Task

KEY = jax.random.key(7)
WRONG, RIGHT, STOP = 1, 2, 9


class Words:
    """A tokenizer whose texts are the names of ids."""

    stop_ids = (STOP,)

    def prompt_ids(self, prompt):
        return [int(prompt)]

    def appendix_ids(self, message, *, closed):
        return [int(message), int(closed)]

    def decode(self, ids):
        return " ".join(map(str, ids))


class Policy:
    """First answers are `script`; fresh ones and retries follow `fresh` and `learns`.

    Args:
        script: bool [M, G], which first answers are right.
        fresh: bool [M, G], which answers of another draw are right.
        learns: called with (task, message); whether the retry is right.
    """

    def __init__(self, script, fresh, learns):
        self.draws, self.learns, self.calls = [script, fresh], learns, []

    def generate(self, params, contexts, *, num_samples, key, **settings):
        right = np.array(self.draws[len(self.calls) and 1])
        self.calls.append((contexts, key, settings))
        assert right.shape == (len(contexts), num_samples)
        return self._samples(right)

    def extend(self, params, first, *, select, appendix, context_ids, **settings):
        self.calls.append((select, appendix, context_ids, settings))
        right = [
            self.learns(m, message)
            for (m, _), (message, _) in zip(select, appendix, strict=True)
        ]
        return self._samples(np.array(right)[:, None])

    def _samples(self, right):
        tokens = np.zeros((*right.shape, 2), np.int32)
        tokens[..., 0], tokens[..., 1] = np.where(right, RIGHT, WRONG), STOP
        # The first branch was cut by the limit, the others stopped by themselves.
        truncated = np.zeros(right.shape, bool)
        truncated[:, 0] = True
        zeros = np.zeros(tokens.shape, np.float32)
        lengths = np.where(truncated, 1, 2)
        return Samples(tokens, lengths, zeros, zeros, truncated, ())


def verify(pairs):
    """Right if the text begins so; the feedback names the task."""
    verdicts = []
    for task, text in pairs:
        solved = text.startswith(str(RIGHT))
        status = "passed" if solved else "failed"
        verdicts.append(
            Verdict(
                float(solved), solved, task.prompt, status, 0, 1, visible_passed=solved
            )
        )
    return verdicts


def measure(policy, num_tasks):
    tasks = [Task(f"t/{i}", "programs", str(10 + i)) for i in range(num_tasks)]
    config = configs.Config()
    config = dataclasses.replace(
        config, eval=dataclasses.replace(config.eval, samples=2)
    )
    return feedback_controls(
        policy, {}, tasks, config=config, tokenizer=Words(), verify=verify
    )


def test_a_policy_that_reads_its_feedback():
    policy = Policy(
        script=[[0, 0], [0, 1], [1, 1], [0, 0]],
        fresh=[[1, 0], [0, 0], [0, 0], [0, 0]],
        learns=lambda task, message: message == 10 + task,
    )
    result = measure(policy, 4)
    assert result["attempts"] == 5
    assert result["true"]["mean"] == 1.0
    assert result["other_task"]["mean"] == 0.0
    # Of the three tasks with a failure, one is solved by half of its fresh draws.
    assert result["fresh_draw"]["mean"] == pytest.approx(0.5 / 3)
    assert result["true - other_task"]["mean"] == 1.0
    assert result["true - fresh_draw"]["mean"] == pytest.approx(1 - 0.5 / 3)


def test_tasks_count_alike_however_often_they_failed():
    policy = Policy(
        script=[[0, 0], [0, 1]],
        fresh=[[0, 0], [1, 1]],
        learns=lambda task, message: task == 0,
    )
    result = measure(policy, 2)
    # Two failures of task 0 and one of task 1.
    assert result["true"]["mean"] == result["fresh_draw"]["mean"] == 0.5


def test_each_failure_is_retried_once_with_the_same_numbers():
    policy = Policy([[0, 1], [1, 0]], [[0, 0], [0, 0]], lambda task, message: False)
    measure(policy, 2)
    first, fresh, true, other = policy.calls
    assert [call[0] for call in (true, other)] == [[(0, 0), (1, 1)]] * 2
    # Message and whether the response had closed itself.
    assert true[1] == [[10, 0], [11, 1]]
    assert other[1] == [[11, 0], [10, 1]]
    keys = [call[-1]["key"] for call in (true, other)]
    assert keys[0] == keys[1]
    assert (
        len({str(jax.random.key_data(k)) for k in (first[1], fresh[1], keys[0])}) == 3
    )


def test_nothing_failed():
    policy = Policy([[1, 1]], [[1, 1]], None)
    with pytest.raises(ValueError, match="none of them did"):
        measure(policy, 1)
