"""Ratios of whole responses: GSPO, response-level weights and the entropy bonus.

They must not depend on how rows are packed or cut into micro-batches.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import models, packing
from tests.packing import paths
from tests.training import tiny
from tests.training.test_step import eight_rows, gradients, path_rows

STEP = tiny.make_step(tiny.RESPONSES)


def drift(names):
    """How far the sampler was from the trainer: a function of the token's name."""
    return 0.6 * np.sin(5e4 * names.astype(np.float64)).astype(np.float32)


@jax.jit
def path_scores(params, tokens):
    """(log-prob of each token after those before it, entropy there), [32, 40]."""
    logits = models.logits(tiny.policy()[0], params, jnp.asarray(tokens))
    table = jax.nn.log_softmax(logits / tiny.TEMPERATURE)
    picked = jnp.take_along_axis(table[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    entropy = -(jnp.exp(table) * table).sum(axis=-1)[:, :-1]
    return tuple(jnp.pad(x, ((0, 0), (1, 0))) for x in (picked, entropy))


@jax.jit
@jax.value_and_grad
def path_loss(params, rows, old, ref, behavior):
    """The loss of rows that hold one response each, written out from the papers."""
    live, entropy = path_scores(params, rows["tokens"])
    mask = rows["mask"]
    length = jnp.maximum(mask.sum(axis=1), 1)

    def of_row(values):
        return jnp.where(mask, values, 0.0).sum(axis=1)

    ratio = jnp.exp(of_row(live - old) / length)
    advantage, weight = (of_row(rows[n]) / length for n in ("advantages", "weights"))
    bounded = jnp.clip(ratio, 0.95, 1.05)
    gain = jnp.minimum(ratio * advantage, bounded * advantage)
    trust = jnp.minimum(jnp.exp(of_row(old - behavior)), 1.1)
    policy = -(weight * length * trust * gain).sum()
    penalty = 0.2 * jnp.square(live - ref) / 2.0 - 0.1 * entropy
    return policy + of_row(rows["weights"] * penalty).sum()


@pytest.mark.parametrize("shape", [tiny.SHORT, tiny.LONG])
@pytest.mark.parametrize("seed", [0, 1])
def test_packed_rows_equal_one_path_per_row(seed, shape):
    tree = paths.random_tree(seed, num_prompts=3)
    credit = paths.random_credit(tree, seed)
    batch = tiny.pack(tree, tree.node_mask, *credit, shape)
    one_path = path_rows(tree, tree.node_mask, *credit)
    (_, params), (_, old), (_, ref) = (tiny.policy(seed) for seed in range(3))
    old, ref = (
        jax.tree.map(lambda a, b: a + 0.1 * (b - a), params, other)
        for other in (old, ref)
    )

    def scored(params):
        parts = packing.micro_batches(batch, 1)
        scores = [STEP.score(params, part, tiny.TEMPERATURE) for part in parts]
        return np.concatenate(scores)[: batch.num_rows]

    names = batch.behavior_log_probs
    batch = dataclasses.replace(
        batch,
        old_log_probs=scored(old),
        ref_log_probs=scored(ref),
        behavior_log_probs=scored(old) + drift(names),
    )
    scores = [path_scores(p, one_path["tokens"])[0] for p in (old, ref)]
    behavior = scores[0] + drift(one_path["names"])
    loss, slope = path_loss(params, one_path, *scores, behavior)
    got, sums = gradients(STEP, params, batch, 1)
    np.testing.assert_allclose(sums["loss"], loss, rtol=1e-4)
    for name in ("tis_capped", "clip_low", "clip_high"):
        assert 0 < sums[name] < sums["tokens"], name
    assert sums["kl"] > 0 and sums["entropy"] > 0
    tiny.assert_close(got, slope, 2e-5)


def test_micro_batches_give_the_same_gradient():
    params = tiny.policy()[1]
    batch = eight_rows("response")
    old = batch.behavior_log_probs + drift(batch.behavior_log_probs) / 4
    batch = dataclasses.replace(batch, old_log_probs=old)
    whole, sums = gradients(STEP, params, batch, 8)
    assert any(leaf.any() for leaf in jax.tree.leaves(whole))
    parts, more = gradients(STEP, params, batch, 1)
    tiny.assert_close(parts, whole, 1e-6)
    tiny.assert_close(more, sums, 1e-6)
