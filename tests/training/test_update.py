"""All updates of a rollout: who is trained when, from which old policy."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from rlvr_jax import credit, packing
from rlvr_jax.config import (
    Config,
    ObjectiveSection,
    RolloutSection,
    UpdateSection,
)
from rlvr_jax.training.step import TrainState
from rlvr_jax.training.update import update
from tests.packing import paths
from tests.training import tiny

KEY = jax.random.key(0)


class Ledger:
    """Stands in for the train step: the weights are one number, calls are noted."""

    def __init__(self):
        self.batches, self.temperatures = [], set()

    def score(self, params, rows, temperature):
        self.temperatures.add(temperature)
        return np.full(rows.target.shape, params["weight"], np.float32)

    def gradients(self, params, rows, temperature):
        self.temperatures.add(temperature)
        batch = jax.tree.map(lambda *parts: np.concatenate(parts), *rows)
        self.batches.append(batch)
        sums = dict.fromkeys(("clip_low", "clip_high", "loss", "kl"), 0.0)
        tokens = float(batch.loss_mask.sum())
        gap = tokens * len(self.batches)
        return {}, sums | {"tokens": tokens, "gap": gap, "policy": 3.0}

    def update(self, state, gradients):
        params = {"weight": state.params["weight"] + 1.0}
        state = dataclasses.replace(state, params=params)
        return state, {"grad/norm": 1.0, "optim/lr": 0.1}

    def advance(self, state):
        return dataclasses.replace(state, step=state.step + 1)


def config(objective=None, *, shape=tiny.SHORT, **changes):
    return Config(
        rollout=RolloutSection(temperature=tiny.TEMPERATURE, max_response_tokens=5),
        credit=credit.CreditConfig(scale="none"),
        objective=ObjectiveSection(**{"old_log_probs": "sampler"} | (objective or {})),
        update=UpdateSection(
            rows=1, row_length=shape[0], target_length=shape[1], **changes
        ),
    )


def noted(tree, settings, *, key=KEY, weight=0.0, reference=None):
    """(ledger, state, credit, metrics) of one call on the stand-in."""
    ledger = Ledger()
    state = TrainState({"weight": weight}, None, 0)
    state, assigned, metrics = update(
        ledger, state, tree, config=settings, key=key, reference=reference
    )
    return ledger, state, assigned, metrics


def trained_in(batch, tree):
    """Names (prompt, slot, index) of the targets of a batch."""
    names = {}
    for node in paths.trained(tree.node_mask):
        for i in range(tree.response_lengths[node]):
            names[float(tree.behavior_log_probs[node][i])] = (*node, i)
    found = [names[float(x)] for x in batch.behavior_log_probs[batch.loss_mask]]
    assert len(found) == len(set(found))
    return set(found)


def prompts_of(ledger, tree):
    return [sorted({name[0] for name in trained_in(b, tree)}) for b in ledger.batches]


def tokens_of(tree, mask):
    return {
        (*node, i)
        for node in paths.trained(mask)
        for i in range(tree.response_lengths[node])
    }


def test_every_epoch_trains_each_prompt_once_in_its_own_order():
    tree = paths.random_tree(0, num_prompts=9)
    settings = config(epochs=3, minibatches=4)
    ledger, state, assigned, _ = noted(tree, settings)
    assert len(ledger.batches) == 12
    assert state.step == 1
    expected = tokens_of(tree, assigned.advantages != 0)
    orders = []
    for epoch in range(3):
        parts = ledger.batches[4 * epoch : 4 * epoch + 4]
        names = [trained_in(part, tree) for part in parts]
        assert set().union(*names) == expected
        assert sum(map(len, names)) == len(expected)
        prompts = prompts_of(ledger, tree)[4 * epoch : 4 * epoch + 4]
        assert sorted(itertools.chain(*prompts)) == sorted({b for b, *_ in expected})
        orders.append(prompts)
    assert orders[0] != orders[1] != orders[2]
    again = noted(tree, settings)[0]
    assert prompts_of(again, tree) == [*itertools.chain(*orders)]
    other = noted(tree, settings, key=jax.random.key(1))[0]
    assert prompts_of(other, tree) != [*itertools.chain(*orders)]
    assert ledger.temperatures == {tiny.TEMPERATURE}


@pytest.mark.parametrize("reduction", ["token", "response", "group", "constant"])
def test_weights_are_those_of_the_mini_batch(reduction):
    tree = paths.random_tree(1, num_prompts=6)
    settings = config({"reduction": reduction, "kl_coefficient": 0.1}, minibatches=3)
    ledger = noted(tree, settings, reference={"weight": 0.0})[0]
    for batch in ledger.batches:
        total = batch.weights.sum()
        if reduction == "constant":
            nodes = {name[:2] for name in trained_in(batch, tree)}
            expected = batch.loss_mask.sum() / (len(nodes) * 5)
        else:
            expected = 1.0
        np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_silent_nodes_are_not_trained_but_counted():
    tree = paths.random_tree(2, num_prompts=4)
    tree.rewards[:2] = 1.0
    ledger, _, assigned, metrics = noted(tree, config())
    (batch,) = ledger.batches
    expected = tokens_of(tree, assigned.advantages != 0)
    assert trained_in(batch, tree) == expected
    assert {name[0] for name in expected} == {2, 3}
    counted = tree.response_lengths[tree.node_mask].sum()
    np.testing.assert_allclose(batch.weights[batch.loss_mask], 1 / counted, rtol=1e-6)
    assert metrics["tokens/trained"] == len(expected)


@pytest.mark.parametrize(("pruning", "budget"), [("inter", 1), ("intra", 2)])
@pytest.mark.parametrize("kl_coefficient", [0.0, 0.1])
def test_pruned_nodes_are_neither_trained_nor_counted(pruning, budget, kl_coefficient):
    tree = paths.random_tree(2, branching=(4, 3), num_prompts=4)
    tree.rewards[0] = 1.0  # silent, yet counted where it is kept
    rule = credit.CreditConfig(scale="none", pruning=pruning, prune_budget=budget)
    settings = config({"kl_coefficient": kl_coefficient})
    settings = dataclasses.replace(settings, credit=rule)
    ledger, _, assigned, _ = noted(tree, settings, reference={"weight": 0.0})
    (batch,) = ledger.batches
    kept = assigned.keep_mask
    assert kept.sum() < tree.node_mask.sum()
    assert (assigned.advantages[~kept] == 0).all()
    trained = kept if kl_coefficient else kept & (assigned.advantages != 0)
    assert trained_in(batch, tree) == tokens_of(tree, trained)
    counted = tree.response_lengths[kept].sum()
    np.testing.assert_allclose(batch.weights[batch.loss_mask], 1 / counted, rtol=1e-6)


def test_a_kl_term_trains_silent_nodes():
    tree = paths.random_tree(2, num_prompts=4)
    tree.rewards[:] = 1.0
    settings = config({"kl_coefficient": 0.1})
    ledger = noted(tree, settings, reference={"weight": -7.0})[0]
    (batch,) = ledger.batches
    assert trained_in(batch, tree) == tokens_of(tree, tree.node_mask)
    assert (batch.ref_log_probs[batch.loss_mask] == -7.0).all()
    with pytest.raises(ValueError, match=r"reference must be .*kl_coefficient 0.1"):
        noted(tree, settings)


def test_without_reference_nothing_is_scored():
    tree = paths.random_tree(2)
    (batch,) = noted(tree, config())[0].batches
    assert (batch.ref_log_probs == 0).all()
    np.testing.assert_array_equal(batch.old_log_probs, batch.behavior_log_probs)


def test_recomputed_old_log_probs_are_of_the_policy_that_sampled():
    tree = paths.random_tree(3, num_prompts=6)
    settings = config({"old_log_probs": "recompute"}, epochs=2, minibatches=3)
    weight = 5.0
    for _ in range(3):
        ledger, state, _, _ = noted(tree, settings, weight=weight)
        assert len(ledger.batches) == 6
        for batch in ledger.batches:
            # Not of the weights in between: the ratio would be 1 for ever.
            assert (batch.old_log_probs[batch.loss_mask] == weight).all()
            assert (batch.old_log_probs != batch.behavior_log_probs).any()
        weight = state.params["weight"]
    assert weight == 5.0 + 3 * 6


def test_means_over_several_updates():
    tree = paths.random_tree(4, num_prompts=4)
    settings = config(epochs=2, minibatches=2)
    ledger, _, _, metrics = noted(tree, settings)
    assert len(ledger.batches) == 4
    assert metrics["loss/policy"] == 3.0
    assert metrics["policy/sampler_gap"] == 1.0  # of the first update
    tokens = sum(int(batch.loss_mask.sum()) for batch in ledger.batches)
    assert metrics["tokens/trained"] == tokens


def test_the_gap_is_of_the_first_update_that_trains():
    tree = paths.random_tree(4, num_prompts=4)
    tree.rewards[:3] = 0.5
    for seed in range(6):
        settings = config(minibatches=4)
        ledger, state, _, metrics = noted(tree, settings, key=jax.random.key(seed))
        assert len(ledger.batches) == 1
        assert state.params == {"weight": 1.0}
        assert metrics["policy/sampler_gap"] == 1.0


def test_the_share_of_silent_groups():
    tree = paths.random_tree(0, branching=(2, 2), num_prompts=2)
    tree.node_mask[:] = tree.context_mask[:] = False
    tree.rewards[:] = np.nan
    # Sibling groups: {0, 1}, {2, 3} (children of 0), {4, 5} (children of 1).
    for prompt, slots, rewards in [
        (0, [0, 1], [1.0, 0.0]),  # speaks
        (0, [2, 3], [0.5, 0.5]),  # silent
        (1, [0, 1], [0.0, 0.0]),  # silent
        (1, [4], [1.0]),  # silent: nobody to compare with
    ]:
        tree.node_mask[prompt, slots] = tree.context_mask[prompt, slots] = True
        tree.rewards[prompt, slots] = rewards
        tree.response_lengths[prompt, slots] = 1
        tree.response_tokens[prompt, slots, 0] = 3
        tree.behavior_log_probs[prompt, slots, 0] = -1.0
        tree.feedback_lengths[prompt, slots] = 0
    metrics = noted(tree, config())[3]
    assert metrics["groups/zero_signal"] == 3 / 4


def test_packing_is_reported():
    tree = paths.random_tree(5, num_prompts=4)
    ledger, _, assigned, metrics = noted(tree, config(shape=tiny.LONG))
    (batch,) = ledger.batches
    whole = packing.count_path_tokens(tree, assigned.advantages != 0)
    saved = 1 - packing.count_tokens(batch) / whole
    assert 0 < metrics["tokens/saved_by_packing"] == saved


# --- with the real train step ---------------------------------------------------------


def without_signal(kind):
    tree = paths.random_tree(6)
    tree.rewards[tree.node_mask] = {"solved": 1.0, "failed": 0.0, "lost": 0.35}[kind]
    if kind == "lost":
        tree.node_mask[:] = False
    return tree


@pytest.mark.parametrize("kind", ["solved", "failed", "lost"])
def test_without_signal_weights_and_optimizer_stay_bit_for_bit(kind):
    step = tiny.make_step(warmup_steps=4, weight_decay=0.1)
    state = step.init(tiny.copied(tiny.policy()[1]))
    before = jax.tree.map(np.array, (state.params, state.opt_state))
    settings = config({"old_log_probs": "live"})
    for done in range(1, 4):
        state, _, metrics = update(
            step, state, without_signal(kind), config=settings, key=KEY, reference=None
        )
        assert int(state.step) == done
        assert metrics["tokens/trained"] == 0
        assert metrics["tokens/saved_by_packing"] == 0
        assert metrics["groups/zero_signal"] == (0 if kind == "lost" else 1)
        assert all(np.isfinite(value) for value in metrics.values())
    after = (state.params, state.opt_state)
    jax.tree.map(np.testing.assert_array_equal, after, before)
    zero = jax.tree.map(np.zeros_like, before[0])
    _, measured = step.update(state, zero)
    np.testing.assert_allclose(measured["optim/lr"], 0.1)  # step 3 of the warm-up


def test_the_ratio_starts_at_one_in_every_training_step():
    tree = paths.random_tree(7)
    objective = dataclasses.asdict(tiny.FULL)
    step = tiny.make_step(tiny.FULL)
    reference = tiny.policy()[1]
    state, kls = step.init(tiny.copied(reference)), []
    for _ in range(3):
        state, _, metrics = update(
            step,
            state,
            tree,
            config=config(objective),
            key=KEY,
            reference=reference,
        )
        # An old policy that stays the first one would be clipped from step 2 on.
        assert metrics["policy/clip_low"] == metrics["policy/clip_high"] == 0
        kls.append(metrics["loss/kl"])
    assert kls[0] < 1e-6
    assert min(kls[1:]) > 1e-3


def test_a_second_epoch_is_clipped():
    tree = paths.random_tree(7)
    settings = config(dataclasses.asdict(tiny.FULL), epochs=2)
    step, reference = tiny.make_step(tiny.FULL), tiny.policy()[1]
    state = step.init(tiny.copied(reference))
    _, _, metrics = update(
        step, state, tree, config=settings, key=KEY, reference=reference
    )
    assert metrics["policy/clip_low"] + metrics["policy/clip_high"] > 0
