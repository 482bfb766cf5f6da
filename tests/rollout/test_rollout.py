"""Rollouts of a tiny random policy: what grows, what is dropped, what is trained."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from rlvr_jax import credit, packing, sampling
from rlvr_jax.config import Config, RolloutSection, UpdateSection
from rlvr_jax.envs import Verdict
from rlvr_jax.rollout import Limits, rollout
from rlvr_jax.tasks import Task
from rlvr_jax.training.update import update
from rlvr_jax.tree import NO_PARENT, TreeLayout
from tests.packing import paths
from tests.training import tiny

USER, OPEN, STOP = 34, 35, 36
KEY = jax.random.key(0)
LAYOUT = TreeLayout((2, 2, 2))
LIMITS = Limits(LAYOUT, prompt_tokens=6, response_tokens=6, feedback_tokens=7)
TASKS = [Task(f"t{i}", "programs", prompt) for i, prompt in enumerate(["ab", "c"] * 2)]


class Letters:
    """A tokenizer of letters: a = 1; id 0 and others beyond the letters stop."""

    stop_ids = (STOP, 0, 30, 31, 32)

    def encode(self, text):
        return [ord(letter) - 96 for letter in text]

    def decode(self, ids):
        return "".join(chr(96 + int(i)) for i in ids if i not in self.stop_ids)

    def prompt_ids(self, prompt):
        return [USER, *self.encode(prompt), OPEN]

    def appendix_ids(self, feedback, *, closed):
        return [*([] if closed else [STOP]), USER, *self.encode(feedback), OPEN]


class Recorder:
    """A sampler that keeps what it was asked and what it gave."""

    def __init__(self):
        self.calls = []
        self.buckets = real_sampler().buckets

    def generate(self, params, contexts, **settings):
        out = real_sampler().generate(params, contexts, **settings)
        self.calls.append((out, {"contexts": contexts, **settings}))
        return out

    def extend(self, params, samples, **settings):
        out = real_sampler().extend(params, samples, **settings)
        self.calls.append((out, settings))
        return out


@functools.cache
def real_sampler():
    buckets = sampling.Buckets(contexts=(16,), context_lengths=(48,), chunk=8)
    return sampling.Sampler(tiny.policy()[0], buckets=buckets)


def verdict(reward=0.0, *, feedback="no", solved=None, visible=False):
    if reward is None:
        return Verdict(None, False, "", "infrastructure", 0, 1)
    solved = reward == 1 if solved is None else solved
    status = "passed" if solved else "failed"
    return Verdict(reward, solved, feedback, status, int(solved), 1, visible)


def fails(pairs):
    return [verdict() for _ in pairs]


def grow(verify=fails, *, tasks=TASKS, sampler=None, key=KEY, limits=LIMITS, **more):
    return rollout(
        sampler or real_sampler(),
        tiny.policy()[1],
        tasks,
        tokenizer=Letters(),
        verify=verify,
        limits=limits,
        key=key,
        **more,
    )


def by_turn(*rules):
    """A verifier with one rule per turn: (index in the turn, text) -> Verdict."""
    waiting = iter(rules)

    def verify(pairs):
        rule = next(waiting)
        return [rule(i, text) for i, (_, text) in enumerate(pairs)]

    return verify


def ids(tree, prompt, slot):
    return [token for _, token in paths.response(tree, prompt, slot)]


# --- tokens ---------------------------------------------------------------------------


def test_ids_sampled_are_the_ids_kept_and_the_ids_trained():
    sampler, tokenizer = Recorder(), Letters()
    result = grow(sampler=sampler)
    tree = result.tree
    assert tree.context_mask.all() and tree.node_mask.all()
    parents = [(prompt, NO_PARENT) for prompt in range(4)]
    sampled = {}
    for turn, (out, asked) in enumerate(sampler.calls):
        nodes = []
        for m, (prompt, parent) in enumerate(parents):
            before = [token for _, token in paths.history(tree, prompt, parent)]
            if parent == NO_PARENT:
                assert asked["contexts"][m] == tokenizer.prompt_ids(
                    TASKS[prompt].prompt
                )
                slots = range(2)
            else:
                tail = tokenizer.appendix_ids(
                    "no", closed=not tree.truncated[prompt, parent]
                )
                assert asked["appendix"][m] == tail
                slots = LAYOUT.children(parent)
            for g, slot in enumerate(slots):
                length = out.lengths[m, g]
                sampled[prompt, slot] = out.tokens[m, g, :length].tolist()
                np.testing.assert_array_equal(
                    tree.behavior_log_probs[prompt, slot, :length],
                    out.log_probs[m, g, :length],
                )
                assert tree.truncated[prompt, slot] == out.truncated[m, g]
                np.testing.assert_allclose(
                    result.entropies[prompt, slot],
                    out.entropies[m, g, :length].sum(),
                    rtol=1e-6,
                )
                own = [token for _, token in paths.history(tree, prompt, slot)]
                if parent == NO_PARENT:
                    assert own == asked["contexts"][m]
                else:
                    assert own == [*before, *sampled[prompt, parent], *tail]
                nodes.append((prompt, slot))
        parents = nodes
        assert {LAYOUT.turns[slot] for _, slot in nodes} == {turn}
    for node, tokens in sampled.items():
        assert ids(tree, *node) == tokens
        assert result.texts[node[0]][node[1]] == tokenizer.decode(tokens)
        stops = [token in tokenizer.stop_ids for token in tokens]
        assert not any(stops[:-1])
        assert stops[-1] == (not tree.truncated[node])
    assert tree.truncated.any() and not tree.truncated.all()
    batch = packing.pack(
        tree,
        advantages=np.ones(tree.node_mask.shape),
        weights=np.ones(tree.node_mask.shape),
        train_mask=tree.node_mask,
        row_length=500,
        target_length=500,
    )
    assert sorted(batch.target[batch.loss_mask]) == sorted(
        itertools.chain(*sampled.values())
    )


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_the_trainer_reads_the_sampling_temperature(temperature):
    tree = grow(
        lambda pairs: [verdict(i % 3 / 2, solved=False) for i in range(len(pairs))],
        temperature=0.6,
    ).tree
    settings = Config(
        rollout=RolloutSection(temperature=temperature),
        credit=credit.CreditConfig(),
        objective=dataclasses.replace(tiny.FULL, kl_coefficient=1e-9),
        update=UpdateSection(
            rows=1, row_length=tiny.LONG[0], target_length=tiny.LONG[1]
        ),
    )
    step, params = tiny.make_step(tiny.FULL), tiny.policy()[1]
    state = step.init(tiny.copied(params))
    _, _, metrics = update(
        step, state, tree, config=settings, key=KEY, reference=params
    )
    assert metrics["tokens/trained"] == tree.response_lengths.sum()
    assert (metrics["policy/sampler_gap"] < 1e-4) == (temperature == 0.6)
    assert temperature == 0.6 or metrics["policy/sampler_gap"] > 0.1


def test_equal_prompts_get_different_responses_and_keys_decide():
    one, again, other = grow(), grow(), grow(key=jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, one.tree, again.tree)
    assert one.texts == again.texts
    for prompt in (0, 1):  # prompts 2 and 3 ask the same
        for slot in range(LAYOUT.num_nodes):
            assert ids(one.tree, prompt, slot) != ids(one.tree, prompt + 2, slot)
    assert one.texts[0] != other.texts[0]
    siblings = [ids(one.tree, 0, slot) for slot in range(2)]
    assert siblings[0] != siblings[1]


def test_part_of_a_batch_gives_the_same_responses():
    whole = grow()
    part = grow(tasks=TASKS[2:], first_prompt=2)
    assert part.texts == whole.texts[2:]
    np.testing.assert_array_equal(
        part.tree.response_tokens, whole.tree.response_tokens[2:]
    )
    np.testing.assert_allclose(
        part.tree.behavior_log_probs, whole.tree.behavior_log_probs[2:], atol=1e-5
    )
    assert grow(tasks=TASKS[2:]).texts != part.texts


# --- who grows ------------------------------------------------------------------------


@pytest.mark.parametrize("expand", ["unsolved", "visible_failed", "all"])
def test_who_is_expanded(expand):
    kinds = [
        verdict(0.0),  # fails what it saw
        verdict(0.5, visible=True),  # fails a hidden test alone
        verdict(1.0, visible=True),
        verdict(None),
    ]
    limits = dataclasses.replace(LIMITS, expand=expand)

    def rule(i, _):
        return kinds[i % 4]

    result = grow(by_turn(rule, rule, rule), limits=limits)
    wanted = {"unsolved": [0, 1], "visible_failed": [0], "all": [0, 1, 2]}[expand]
    nodes = [(prompt, slot) for prompt in range(4) for slot in range(2)]
    children = []
    for i, (prompt, slot) in enumerate(nodes):
        here = list(LAYOUT.children(slot))
        grown = result.tree.context_mask[prompt, here]
        assert grown.all() == grown.any() == (i % 4 in wanted)
        assert (slot in result.feedback[prompt]) == (i % 4 in wanted)
        children += [(prompt, child) for child in here if grown.all()]
    for i, node in enumerate(children):
        below = list(LAYOUT.children(node[1]))
        assert result.tree.context_mask[node[0], below].any() == (i % 4 in wanted)
    known = result.tree.context_mask & result.tree.node_mask
    assert (known == result.tree.node_mask).all()
    for prompt, slot in np.argwhere(result.tree.node_mask):
        told = result.verdicts[prompt][slot]
        assert result.tree.rewards[prompt, slot] == told.reward
        assert result.tree.solved[prompt, slot] == told.solved


def test_a_lost_verdict_drops_the_node_and_stays_context():
    lost = [(0, 1), (2, 0)]

    def rule(i, _):
        return verdict(None if (i // 2, i % 2) in lost else 0.0)

    def fail(*_):
        return verdict()

    tree = grow(by_turn(rule, fail, fail)).tree
    for prompt in range(4):
        for slot in range(2):
            gone = (prompt, slot) in lost
            assert tree.context_mask[prompt, slot]
            assert tree.node_mask[prompt, slot] == (not gone)
            below = list(LAYOUT.children(slot))
            assert tree.context_mask[prompt, below].all() == (not gone)
            assert tree.response_lengths[prompt, slot] >= 1


def test_a_node_that_lost_all_its_children_is_dropped():
    def fail(*_):
        return verdict()

    def last(i, _):
        # 8 leaves per tree, by twos below the nodes of turn 2. Of tree 0: all
        # children of nodes 2 and 3 are lost, and one child of node 4.
        return verdict(None if i in (0, 1, 2, 3, 4) else 0.0)

    tree = grow(by_turn(fail, fail, last)).tree
    assert tree.context_mask.all()
    # Both children of node 0 were dropped, so it goes too.
    assert np.flatnonzero(~tree.node_mask[0]).tolist() == [0, 2, 3, 6, 7, 8, 9, 10]
    assert tree.node_mask[1:].all()


def test_a_solved_batch_ends_after_one_turn():
    sampler = Recorder()
    result = grow(lambda pairs: [verdict(1.0)] * len(pairs), sampler=sampler)
    assert len(sampler.calls) == 1
    assert result.tree.solved[:, :2].all()
    assert result.tree.context_mask.sum() == 8
    assert result.feedback == [{}] * 4


def test_no_task_is_an_empty_tree():
    result = grow(tasks=[])
    assert result.tree.node_mask.shape == (0, LAYOUT.num_nodes)


# --- limits ---------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [4, 8, 100])
def test_attempts_of_a_path_share_the_budget(budget):
    sampler = Recorder()
    limits = dataclasses.replace(LIMITS, budget=budget)
    tree = grow(limits=limits, sampler=sampler).tree
    shortened = absent = 0
    for prompt, slot in itertools.product(range(4), range(LAYOUT.num_nodes)):
        parent, spent = int(LAYOUT.parents[slot]), 0
        if parent != NO_PARENT and not tree.context_mask[prompt, parent]:
            assert not tree.context_mask[prompt, slot]
            continue
        while parent != NO_PARENT:
            spent += tree.response_lengths[prompt, parent]
            parent = int(LAYOUT.parents[parent])
        room = min(6, budget - spent)
        assert tree.context_mask[prompt, slot] == (room >= 1)
        absent += room < 1
        if room >= 1:
            length = tree.response_lengths[prompt, slot]
            assert length <= room
            if tree.truncated[prompt, slot]:
                assert length == room
                shortened += room < 6
    assert (shortened > 0) == (absent > 0) == (budget < 100)
    assert (tree.node_mask == tree.context_mask).all()


@pytest.mark.parametrize("feedback", ["z" * 50, "yes", ""])
def test_long_feedback_is_cut_and_its_turn_stays_whole(feedback):
    result = grow(lambda pairs: [verdict(feedback=feedback) for _ in pairs])
    tree = result.tree
    for prompt in range(4):
        for slot in range(LAYOUT.turn_slice(1).stop):
            size = tree.feedback_lengths[prompt, slot]
            tail = tree.feedback_tokens[prompt, slot, :size].tolist()
            closed = not tree.truncated[prompt, slot]
            start = [USER] if closed else [STOP, USER]
            assert tail[: len(start)] == start
            assert tail[-1] == OPEN
            shown = Letters().decode(tail[len(start) : -1])
            assert feedback.startswith(shown)
            assert result.feedback[prompt][slot] == shown
            assert size <= 7
            assert shown == feedback or size >= 6
        assert (tree.feedback_lengths[prompt, LAYOUT.turn_slice(2)] == 0).all()


def test_one_feedback_for_all():
    sampler = Recorder()
    limits = dataclasses.replace(LIMITS, feedback="try")
    result = grow(limits=limits, sampler=sampler)
    assert set(result.feedback[0].values()) == {"try"}
    assert sampler.calls[1][1]["appendix"][0][-4:-1] == Letters().encode("try")


def test_errors():
    def spoiled(pairs):
        return [verdict()] * 3 + [verdict(np.nan)] + [verdict()] * (len(pairs) - 4)

    with pytest.raises(ValueError, match=r"task t1: the verifier gave the reward nan"):
        grow(spoiled)
    with pytest.raises(ValueError, match=r"task t1: the verifier gave the reward inf"):
        grow(lambda pairs: [verdict()] * 2 + [verdict(np.inf)] * (len(pairs) - 2))
    long = Task("long", "programs", "abcdefgh")
    with pytest.raises(ValueError, match=r"task long: .* 10 tokens .*_tokens is 6"):
        grow(tasks=[TASKS[0], long])
    limits = dataclasses.replace(LIMITS, feedback_tokens=1)
    with pytest.raises(ValueError, match=r"max_feedback_tokens must hold .*got 1"):
        grow(limits=limits)
