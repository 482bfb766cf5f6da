"""Chains of attempts by hand: which attempt counts, and what is the mean."""

import dataclasses

import numpy as np
import pytest

from rlvr_jax import config as configs
from rlvr_jax import rollout as rollouts
from rlvr_jax import tree
from rlvr_jax.envs import Verdict
from rlvr_jax.evaluation import evaluate, iterations
from rlvr_jax.tasks import Task

CHAINS, TURNS = 2, 3

# What each attempt of a chain is: hidden and visible tests passed, visible ones alone,
# nothing, or without an answer.
VERDICTS = {
    "P": Verdict(1.0, True, "", "passed", 2, 2, True),
    "V": Verdict(0.5, False, "", "failed", 1, 2, True),
    "F": Verdict(0.0, False, "", "failed", 0, 2, False),
    "N": Verdict(0.0, False, "", "no_answer", 0, 2, False),
    "L": Verdict(None, False, "", "infrastructure", 0, 2),
}


def grown(tasks, scripts, expand):
    """The rollout in which chain c of task t is graded as `scripts[t][c]` says."""
    layout = tree.TreeLayout((CHAINS, *(1,) * (TURNS - 1)))
    arrays = tree.empty_tree(
        layout,
        num_prompts=len(tasks),
        prompt_length=1,
        response_length=1,
        feedback_length=1,
    )
    verdicts = [{} for _ in tasks]
    for row, chains in enumerate(scripts):
        for chain, script in enumerate(chains):
            for turn, letter in enumerate(script):
                slot = turn * CHAINS + chain
                verdict = verdicts[row][slot] = VERDICTS[letter]
                arrays.context_mask[row, slot] = True
                if verdict.reward is None:
                    break
                arrays.node_mask[row, slot] = True
                arrays.rewards[row, slot] = verdict.reward
                arrays.solved[row, slot] = verdict.solved
                over = (
                    verdict.solved if expand == "unsolved" else verdict.visible_passed
                )
                if over:
                    break
    # Slots that nobody reached may hold anything.
    arrays.solved[~arrays.context_mask] = True
    return rollouts.Rollout(
        tree=arrays,
        tasks=tasks,
        texts=[],
        feedback=[],
        verdicts=verdicts,
        entropies=np.zeros(arrays.node_mask.shape, np.float32),
        seconds={},
    )


SCRIPTS = [
    ("FFP", "FPF"),  # solved late; solved in between and then left alone
    ("VPP", "NFF"),  # the visible tests pass but a hidden one fails; never solved
    ("PFF", "PFF"),  # solved at once
]


@pytest.fixture
def run_evaluation(monkeypatch):
    """Evaluates hand-made rollouts, two tasks at a time; keeps the calls."""
    calls = []

    def run(expand, pass_at=(1, 2), scripts=SCRIPTS):
        tasks = [Task(f"t/{i}", "programs", "p") for i in range(len(scripts))]
        config = configs.Config()
        config = dataclasses.replace(
            config,
            rollout=dataclasses.replace(config.rollout, prompts=1),
            sampler=dataclasses.replace(config.sampler, contexts=(1, 2)),
            eval=dataclasses.replace(
                config.eval,
                samples=CHAINS,
                turns=TURNS,
                expand=expand,
                pass_at=pass_at,
                top_p=0.9,
                top_k=7,
                temperature=0.3,
            ),
        )

        def rollout(sampler, params, batch, *, limits, first_prompt, **settings):
            calls.append((len(batch), first_prompt, limits, settings))
            some = scripts[first_prompt : first_prompt + len(batch)]
            return grown(batch, some, limits.expand)

        monkeypatch.setattr(iterations, "rollout", rollout)
        done = []
        result = evaluate(
            None,
            None,
            tasks,
            config=config,
            tokenizer=None,
            verify=None,
            progress=done.append,
        )
        assert done == [2, 3]
        return result

    run.calls = calls
    return run


def means(result):
    return {name: row["mean"] for name, row in result["metrics"].items()}


def test_iter_k_counts_the_last_attempt_up_to_the_k_th(run_evaluation):
    result = run_evaluation("visible_failed")
    # The chain that stopped at its visible tests stays unsolved.
    assert [row["correct"] for row in result["tasks"]] == [
        [0, 1, 2],
        [0, 0, 0],
        [2, 2, 2],
    ]
    assert means(result) == pytest.approx(
        {
            "eval/pass_at_1": 1 / 3,
            "eval/pass_at_2": 1 / 3,
            "eval/iter_1": (0 + 0 + 2) / 6,
            "eval/iter_2": (1 + 0 + 2) / 6,
            "eval/iter_3": (2 + 0 + 2) / 6,
            "eval/no_answer": (0 + 1 + 0) / 6,
            "eval/lost": 0,
        }
    )


def test_ver_k_goes_on_until_all_tests_pass(run_evaluation):
    result = run_evaluation("unsolved")
    assert [row["correct"] for row in result["tasks"]] == [
        [0, 1, 2],
        [0, 1, 1],
        [2, 2, 2],
    ]
    values = means(result)
    assert values["eval/ver_1"] == values["eval/pass_at_1"]
    assert values["eval/ver_3"] == pytest.approx(5 / 6)
    assert "eval/iter_1" not in values


def test_a_later_attempt_can_lose_what_was_solved():
    # Where everybody is retried, the last attempt counts, not the best.
    whole = grown([Task("t", "programs", "p")], [("FFF", "FFF")], "unsolved")
    whole.tree.solved[0] = [1, 0, 0, 1, 0, 0]
    assert iterations._rows(whole)[0]["correct"] == [1, 1, 0]


def test_an_attempt_that_was_not_made_is_not_counted(run_evaluation):
    # Every chain stops at once: later slots hold junk that says "solved".
    result = run_evaluation("visible_failed", scripts=[("V", "V")] * 3)
    assert [row["correct"] for row in result["tasks"]] == [[0, 0, 0]] * 3


def test_what_was_not_graded_is_left_out_and_counted(run_evaluation):
    scripts = [("FLP", "FPF"), ("L", "P"), ("P", "P")]
    result = run_evaluation("visible_failed", scripts=scripts)
    assert [row["samples"] for row in result["tasks"]] == [1, 1, 2]
    assert [row["correct"] for row in result["tasks"]] == [
        [0, 1, 1],
        [1, 1, 1],
        [2, 2, 2],
    ]
    values = means(result)
    assert values["eval/iter_1"] == pytest.approx((0 + 1 + 1) / 3)
    assert values["eval/lost"] == pytest.approx((1 + 1 + 0) / 6)
    # One sample cannot say anything of pass@2: only the last task has two.
    assert values["eval/pass_at_2"] == 1


def test_an_evaluation_without_any_verdict_is_an_error(run_evaluation):
    with pytest.raises(ValueError, match="no task of the evaluation could be graded"):
        run_evaluation("visible_failed", scripts=[("L", "L")] * 3)


def test_batches_have_the_settings_of_evaluation(run_evaluation):
    run_evaluation("visible_failed")
    sizes = [(count, first) for count, first, *_ in run_evaluation.calls]
    assert sizes == [(2, 0), (1, 2)]
    for _, _, limits, settings in run_evaluation.calls:
        assert limits.layout.branching == (CHAINS, 1, 1)
        assert limits.expand == "visible_failed"
        assert settings["top_p"] == 0.9
        assert settings["top_k"] == 7
        assert settings["temperature"] == 0.3


def test_pass_at_more_than_the_samples_is_refused(run_evaluation):
    with pytest.raises(ValueError, match=r"k must be in \[1, num_samples = 2\]; got 3"):
        run_evaluation("unsolved", pass_at=(3,))
