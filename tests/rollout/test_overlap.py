"""Waves: one is graded while the next are sampled, and nothing but time changes."""

import functools
import threading

import jax
import numpy as np
import pytest

from rlvr_jax import sampling
from rlvr_jax.envs import Verdict
from rlvr_jax.metrics import CompileCounter
from rlvr_jax.rollout import Limits, rollout
from rlvr_jax.tasks import Task
from rlvr_jax.tree import TreeLayout
from tests.rollout.test_rollout import KEY, Letters
from tests.training import tiny

LIMITS = Limits(
    TreeLayout((2, 2)), prompt_tokens=6, response_tokens=6, feedback_tokens=7
)
TASKS = [Task(f"t{i}", "programs", "ab"[: 1 + i % 2]) for i in range(5)]
NO = Verdict(0.0, False, "no", "failed", 0, 1)
YES = Verdict(1.0, True, "", "passed", 1, 1, True)


@functools.cache
def sampler(*contexts):
    buckets = sampling.Buckets(contexts=contexts, context_lengths=(32,), chunk=8)
    return sampling.Sampler(tiny.policy()[0], buckets=buckets)


def fails(pairs):
    return [NO] * len(pairs)


def grow(verify=fails, *, by=None, tasks=TASKS):
    return rollout(
        by or sampler(2),
        tiny.policy()[1],
        tasks,
        tokenizer=Letters(),
        verify=verify,
        limits=LIMITS,
        key=KEY,
    )


class Watched:
    """A sampler that says when a call of it begins and has ended."""

    def __init__(self, before=lambda number: None):
        self.buckets, self.before, self.calls = sampler(2).buckets, before, 0

    def generate(self, *args, **settings):
        return self._call(sampler(2).generate, args, settings)

    def extend(self, *args, **settings):
        return self._call(sampler(2).extend, args, settings)

    def _call(self, function, args, settings):
        self.before(self.calls)
        self.calls += 1
        return function(*args, **settings)


def test_a_wave_is_graded_while_others_are_sampled():
    # Prompts 0-1, 2-3 and 4 are the waves of the first turn; with all attempts
    # failed, their retries are 2 + 2 + 1 waves. Each sampler call but the first
    # waits for a verification to begin, each verification but the last for a call.
    sampling_began = [threading.Event() for _ in range(8)]
    grading_began = [threading.Event() for _ in range(8)]

    def before(number):
        sampling_began[number].set()
        assert number == 0 or grading_began[0].wait(60)

    graded = []

    def verify(pairs):
        number = len(graded)
        graded.append([task.id for task, _ in pairs])
        grading_began[number].set()
        # Retries of the first wave are sampled while the last first attempts wait.
        assert sampling_began[(1, 2, 3)[min(number, 2)]].wait(60)
        return fails(pairs)

    result = grow(verify, by=Watched(before))
    assert result.tree.node_mask.all()
    first = [["t0", "t0", "t1", "t1"], ["t2", "t2", "t3", "t3"], ["t4", "t4"]]
    retries = [[name] * 4 for name in ("t0", "t1", "t2", "t3", "t4")]
    assert graded == first + retries


def test_waves_sample_what_one_call_samples_bit_for_bit():
    result, tokenizer = grow(), Letters()
    contexts = [tokenizer.prompt_ids(task.prompt) for task in TASKS]
    settings = {"stop_ids": tokenizer.stop_ids, "key": KEY, "num_samples": 2}
    one = sampler(2).generate(
        tiny.policy()[1],
        contexts,
        context_ids=[prompt * (LIMITS.layout.num_nodes + 1) for prompt in range(5)],
        max_new_tokens=6,
        **settings,
    )
    nodes = [(prompt, slot) for prompt in range(5) for slot in range(2)]
    two = sampler(2).extend(
        tiny.policy()[1],
        one,
        select=nodes,
        appendix=[
            tokenizer.appendix_ids("no", closed=not one.truncated[node])
            for node in nodes
        ],
        context_ids=[
            prompt * (LIMITS.layout.num_nodes + 1) + slot + 1 for prompt, slot in nodes
        ],
        max_new_tokens=6,
        **settings,
    )
    tree = result.tree
    for slots, out in ((slice(0, 2), one), (slice(2, 6), two)):
        shape = tree.response_tokens[:, slots].shape
        for name, values in (
            ("response_tokens", out.tokens),
            ("behavior_log_probs", out.log_probs),
        ):
            np.testing.assert_array_equal(
                getattr(tree, name)[:, slots], values.reshape(shape)
            )


def test_the_size_of_waves_changes_rounding_alone():
    small, whole = grow(), grow(by=sampler(16))
    assert small.texts == whole.texts
    for name in ("response_tokens", "truncated", "rewards", "node_mask"):
        np.testing.assert_array_equal(
            getattr(small.tree, name), getattr(whole.tree, name)
        )
    np.testing.assert_allclose(
        small.tree.behavior_log_probs, whole.tree.behavior_log_probs, atol=1e-5
    )


def test_verdicts_of_each_wave_reach_their_own_nodes():
    def verify(pairs):
        return [YES if task.id in ("t1", "t2") else NO for task, _ in pairs]

    tree = grow(verify).tree
    solved = np.isin(np.arange(5), [1, 2])
    assert (tree.solved[:, :2] == solved[:, None]).all()
    assert (tree.context_mask[:, 2:] == ~solved[:, None]).all()


def test_waves_compile_nothing_beyond_the_warm_up():
    own = sampling.Sampler(tiny.policy()[0], buckets=sampler(2).buckets)
    for _ in sampling.warm_up(
        own, tiny.policy()[1], num_samples=(2,), max_new_tokens=6, turns=2
    ):
        pass
    jax.random.key(0)
    counter = CompileCounter()
    for count in (1, 5):
        grow(by=own, tasks=TASKS[:count])
    assert counter.count == 0


def test_an_error_of_the_verifier_is_raised_and_ends_the_thread():
    def verify(pairs):
        raise RuntimeError("the grader is gone")

    watched = Watched()
    with pytest.raises(RuntimeError, match="the grader is gone"):
        grow(verify, by=watched)
    assert watched.calls == 3  # the first turn's; nothing is sampled after it
    assert not rollout_threads()


def test_an_error_of_the_sampler_leaves_no_thread_and_no_queue():
    graded = []

    def before(number):
        if number == 2:
            raise MemoryError("no room")

    def verify(pairs):
        graded.append(len(pairs))
        return fails(pairs)

    with pytest.raises(MemoryError, match="no room"):
        grow(verify, by=Watched(before))
    assert len(graded) <= 2
    assert not rollout_threads()


def test_time_is_split_into_waiting_and_hidden():
    held = threading.Event()

    def before(number):
        if number == 2:
            held.set()  # the first verification ends when sampling is under way

    def verify(pairs):
        assert held.wait(60)
        return fails(pairs)

    seconds = grow(verify, by=Watched(before)).seconds
    assert set(seconds) == {"sample", "verify", "verify_hidden"}
    assert seconds["verify_hidden"] > 0
    assert seconds["verify"] >= 0


def rollout_threads():
    return [t for t in threading.enumerate() if t.name.startswith("rlvr-rollout")]
