"""The train step against one path per row, and against other micro-batches."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import models, packing
from rlvr_jax.objective import token_weights
from rlvr_jax.tree import TreeLayout, empty_tree
from tests.packing import paths
from tests.training.tiny import (
    FULL,
    LONG,
    SHORT,
    TEMPERATURE,
    assert_close,
    copied,
    make_step,
    pack,
    policy,
)

# Float32 sums in another order: up to 2e-6 of the largest entry was seen.
REORDERED = 5e-6


def gradients(step, params, batch, rows):
    parts = packing.micro_batches(batch, rows)
    return step.gradients(params, parts, TEMPERATURE)


# --- one path per row, in plain causal rows -------------------------------------------


def path_rows(tree, train_mask, advantages, weights):
    """Arrays [32, 40] of whole paths; `mask` is True at what is predicted."""
    shape = (32, 40)
    rows = {
        "tokens": np.zeros(shape, np.int32),
        "mask": np.zeros(shape, bool),
        "advantages": np.zeros(shape, np.float32),
        "weights": np.zeros(shape, np.float32),
        "names": np.zeros(shape, np.float32),
    }
    for row, node in enumerate(paths.trained(train_mask)):
        before, answer = paths.history(tree, *node), paths.response(tree, *node)
        ids = [token for _, token in [*before, *answer]]
        here = (row, slice(len(before), len(ids)))
        rows["tokens"][row, : len(ids)] = ids
        rows["mask"][here] = True
        rows["advantages"][here] = advantages[node]
        rows["weights"][here] = weights[node]
        rows["names"][here] = tree.behavior_log_probs[node][: len(answer)]
    return rows


@jax.jit
def path_log_probs(params, rows):
    """log-prob of each token of the rows after those before it, [32, 40]."""
    tokens = jnp.asarray(rows["tokens"])
    table = jax.nn.log_softmax(models.logits(policy()[0], params, tokens) / TEMPERATURE)
    picked = jnp.take_along_axis(table[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.pad(picked, ((0, 0), (1, 0)))


@jax.jit
@jax.value_and_grad
def path_loss(params, rows, old, ref):
    """The formula of the full objective, written out."""
    live = path_log_probs(params, rows)
    ratio, advantages = jnp.exp(live - old), rows["advantages"]
    gain = jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.28) * advantages)
    gain = jnp.where(advantages < 0, jnp.maximum(gain, 1.5 * advantages), gain)
    divergence = jnp.exp(ref - live) - (ref - live) - 1.0
    loss = rows["weights"] * (0.2 * divergence - gain)
    return jnp.where(rows["mask"], loss, 0.0).sum()


@pytest.mark.parametrize(("shape", "rows"), [(SHORT, 1), (LONG, 1)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_packed_rows_equal_one_path_per_row(seed, shape, rows):
    tree = paths.random_tree(seed, num_prompts=3)
    credit = paths.random_credit(tree, seed)
    batch = pack(tree, tree.node_mask, *credit, shape)
    assert (batch.num_rows > 3) == (shape == SHORT)
    one_path = path_rows(tree, tree.node_mask, *credit)
    step = make_step(FULL)
    (_, params), (_, old), (_, ref) = policy(0), policy(1), policy(2)
    # Three policies close to each other: some ratios are clipped, some are not.
    old, ref = (
        jax.tree.map(lambda a, b: a + 0.1 * (b - a), params, other)
        for other in (old, ref)
    )

    def scored(params):
        parts = packing.micro_batches(batch, rows)
        scores = [step.score(params, part, TEMPERATURE) for part in parts]
        return np.concatenate(scores)[: batch.num_rows]

    expected = [np.asarray(path_log_probs(p, one_path)) for p in (params, old, ref)]
    for one, other in zip(
        [scored(p) for p in (params, old, ref)], expected, strict=True
    ):
        by_name = dict(
            zip(
                batch.behavior_log_probs[batch.loss_mask],
                one[batch.loss_mask],
                strict=True,
            )
        )
        mask = one_path["mask"]
        got = [by_name[name] for name in one_path["names"][mask]]
        np.testing.assert_allclose(got, other[mask], atol=2e-5)
    batch = dataclasses.replace(
        batch, old_log_probs=scored(old), ref_log_probs=scored(ref)
    )
    got, sums = gradients(step, params, batch, rows)
    loss, slope = path_loss(params, one_path, *expected[1:])
    np.testing.assert_allclose(sums["loss"], loss, rtol=1e-4)
    assert sums["tokens"] == one_path["mask"].sum()
    assert 0 < sums["clip_low"] + sums["clip_high"] < sums["tokens"]
    assert_close(got, slope)


def test_nodes_without_a_signal_leave_the_gradient_as_it_is():
    tree = paths.random_tree(4, num_prompts=2)
    advantages, weights = paths.random_credit(tree, 4)
    silent = np.random.default_rng(4).random(advantages.shape) < 0.5
    advantages[silent & tree.node_mask] = 0.0
    params, step, results = policy()[1], make_step(FULL), []
    for train_mask in (tree.node_mask, tree.node_mask & ~silent):
        batch = pack(tree, train_mask, advantages, weights, LONG)
        assert batch.num_rows == 1
        # Ratio 1 and no distance to the reference: advantages alone speak.
        live = np.asarray(step.score(params, batch, TEMPERATURE))
        batch = dataclasses.replace(batch, old_log_probs=live, ref_log_probs=live)
        results.append(gradients(step, params, batch, 1))
    assert results[1][1]["tokens"] < results[0][1]["tokens"]
    assert_close(results[1][0], results[0][0], REORDERED)
    assert any(leaf.any() for leaf in jax.tree.leaves(results[1][0]))


# --- micro-batches --------------------------------------------------------------------


@functools.cache
def eight_responses():
    """Eight responses to one prompt, too long for two of them to share a row."""
    tree = empty_tree(
        TreeLayout((8,)),
        num_prompts=1,
        prompt_length=5,
        response_length=12,
        feedback_length=0,
    )
    rng = np.random.default_rng(0)
    tree.node_mask[:] = tree.context_mask[:] = True
    tree.prompt_lengths[:] = 5
    tree.prompt_tokens[:] = rng.integers(0, paths.VOCABULARY, (1, 5))
    tree.response_lengths[:] = [7, 12, 8, 9, 11, 7, 10, 12]
    tree.response_tokens[:] = rng.integers(0, paths.VOCABULARY, (1, 8, 12))
    tree.behavior_log_probs[:] = -4 * rng.random((1, 8, 12))
    return tree, rng.normal(size=(1, 8)).astype(np.float32)


def eight_rows(reduction="token"):
    tree, advantages = eight_responses()
    weights = token_weights(
        reduction,
        tree.response_lengths,
        tree.node_mask,
        np.zeros(8, int),
        max_length=16,
    )
    batch = pack(tree, tree.node_mask, advantages, weights, SHORT)
    ref = np.where(batch.loss_mask, -2.0, 0.0).astype(np.float32)
    return dataclasses.replace(batch, ref_log_probs=ref)


def test_micro_batches_give_the_same_gradient():
    params, step, seen = policy()[1], make_step(FULL), []
    for reduction in ("token", "response", "constant", "group"):
        batch = eight_rows(reduction)
        assert batch.num_rows == 8
        whole, sums = gradients(step, params, batch, 8)
        for rows in (4, 1):
            parts, more = gradients(step, params, batch, rows)
            assert_close(parts, whole, REORDERED)
            assert_close(more, sums, REORDERED)
        seen.append(np.concatenate([x.ravel() for x in jax.tree.leaves(whole)]))
    token, response, constant, group = seen
    assert_close(response, group, REORDERED)
    assert_close(constant, token * 76 / 128, REORDERED)
    assert np.abs(token - response).max() > 1e-3


def test_rows_of_padding_change_nothing():
    params, step = policy()[1], make_step(FULL)
    batch = jax.tree.map(lambda array: array[:5], eight_rows())
    padded = gradients(step, params, batch, 8)
    assert_close(padded, gradients(step, params, batch, 1), 1e-6)


def test_padding_alone_weighs_nothing():
    batch = packing.empty_batch(8, row_length=SHORT[0], target_length=SHORT[1])
    slopes, sums = make_step(FULL).gradients(policy()[1], [batch], TEMPERATURE)
    assert all(not leaf.any() for leaf in jax.tree.leaves(slopes))
    assert all(value == 0 for value in sums.values())


@pytest.mark.parametrize("junk", [np.nan, np.inf])
def test_junk_in_masked_targets_changes_nothing(junk):
    params, step = policy()[1], make_step(FULL)
    batch = eight_rows()
    hidden = ~batch.loss_mask
    assert hidden.any()
    changes = {"source": paths.JUNK, "target": paths.JUNK, "response_id": paths.JUNK}
    for name in ("advantages", "weights", "behavior_log_probs", "old_log_probs"):
        changes[name] = junk
    changes["ref_log_probs"] = junk
    dirty = dataclasses.replace(
        batch,
        **{
            name: np.where(hidden, value, getattr(batch, name)).astype(
                getattr(batch, name).dtype
            )
            for name, value in changes.items()
        },
    )
    clean = gradients(step, params, batch, 8)
    jax.tree.map(
        np.testing.assert_array_equal, gradients(step, params, dirty, 8), clean
    )


def test_no_rows_give_a_zero_gradient():
    slopes, sums = make_step(FULL).gradients(policy()[1], [], TEMPERATURE)
    assert all(not leaf.any() for leaf in jax.tree.leaves(slopes))
    assert sums == {}


def test_a_live_old_policy_is_its_own_score():
    params, batch = policy()[1], eight_rows()
    got, sums = gradients(make_step(), params, batch, 1)
    parts = packing.micro_batches(batch, 1)
    live = [make_step(FULL).score(params, part, TEMPERATURE) for part in parts]
    live = np.concatenate(live)
    own = dataclasses.replace(batch, old_log_probs=live, ref_log_probs=live)
    expected, _ = gradients(make_step(FULL), params, own, 1)
    assert sums["clip_low"] == sums["clip_high"] == 0
    assert "kl" not in sums
    assert_close(got, expected, 1e-6)
    signal = (batch.weights * batch.advantages).sum()
    np.testing.assert_allclose(sums["policy"], -signal, rtol=1e-5)


def test_the_temperature_is_read():
    tree = paths.random_tree(4, num_prompts=2)
    batch = pack(tree, tree.node_mask, *paths.random_credit(tree, 4), LONG)
    cold, warm, flat = (
        np.asarray(make_step(FULL).score(policy()[1], batch, temperature))
        for temperature in (0.5, 1.0, 1e6)
    )
    mask = batch.loss_mask
    assert np.abs(cold - warm)[mask].max() > 0.1
    np.testing.assert_allclose(flat[mask], -np.log(paths.VOCABULARY), atol=1e-4)


# --- the update -----------------------------------------------------------------------


@functools.cache
def slopes():
    return gradients(make_step(FULL), policy()[1], eight_rows(), 8)[0]


def test_an_update_keeps_the_step_and_advance_keeps_the_rest():
    step = make_step(warmup_steps=4)
    norm = np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(slopes())))
    state = step.init(copied(policy()[1]))
    rates = []
    for _ in range(3):
        state, metrics = step.update(state, slopes())
        state, again = step.update(state, slopes())
        np.testing.assert_allclose(metrics["grad/norm"], norm, rtol=1e-5)
        assert metrics["optim/lr"] == again["optim/lr"]
        rates.append(float(metrics["optim/lr"]))
        before = jax.tree.map(np.array, (state.params, state.opt_state))
        state = step.advance(state)
        after = (state.params, state.opt_state)
        jax.tree.map(np.testing.assert_array_equal, after, before)
    assert int(state.step) == 3
    np.testing.assert_allclose(rates, [0.025, 0.05, 0.075], rtol=1e-6)


def test_a_zero_learning_rate_changes_no_weight():
    step = make_step(learning_rate=0.0, weight_decay=0.1)
    state, _ = step.update(step.init(copied(policy()[1])), slopes())
    jax.tree.map(np.testing.assert_array_equal, state.params, policy()[1])


def test_updates_raise_what_has_an_advantage():
    ones = np.where(eight_rows().loss_mask, 1.0, 0.0).astype(np.float32)
    batch = dataclasses.replace(
        eight_rows(), advantages=ones, behavior_log_probs=0 * ones
    )
    step, surprise = make_step(), []
    state = step.init(copied(policy()[1]))
    for _ in range(4):
        slope, sums = gradients(step, state.params, batch, 1)
        surprise.append(float(sums["gap"]))  # sum of -logp
        state, _ = step.update(state, slope)
    assert all(b < a for a, b in itertools.pairwise(surprise))
