"""Every preset through credit, packing, loss and optimizer, on a policy of one table.

Token GOOD earns 1 and token BAD earns 0. The policy draws tokens without looking at
their context, so that nothing large has to be compiled.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import algorithms
from rlvr_jax import config as configs
from rlvr_jax import credit
from rlvr_jax.training.policy import Policy
from rlvr_jax.training.step import TrainStep
from rlvr_jax.training.update import update
from rlvr_jax.tree import NO_PARENT, TreeLayout, empty_tree

GOOD, BAD, VOCABULARY = 1, 2, 5
PROMPTS, LIMIT = 16, 4
SMALL = {(16,): (4,), (16, 1): (4, 1), (8, 8): (2, 2)}
WHOLE = ["grpo", "dr_grpo", "rloo", "maxrl", "reinforce_pp"]
OF_TURNS = ["multi_attempt_grpo", "cal_grpo"]


class Table(TrainStep):
    """The train step with a table of logits for a model."""

    def _log_probs(self, params, rows, temperature, frozen):
        table = jax.nn.log_softmax(params["logits"] / temperature)
        entropy = -(jnp.exp(table) * table).sum()
        return table[rows.target], jnp.full(rows.target.shape, entropy)


def preset(algorithm):
    values = algorithms.apply(configs.default_config(), algorithm)
    values.rollout.prompts = PROMPTS
    values.rollout.branching = SMALL[values.rollout.branching]
    values.rollout.max_response_tokens = LIMIT
    values.tasks.max_prompt_tokens = 2
    values.rollout.max_feedback_tokens = 2
    values.update.row_length = values.update.target_length = 64
    values.optimizer.learning_rate = 0.05
    return configs.parse(values)


def grown(branching, *, expand="unsolved", seed=0):
    """Trees of responses that repeat GOOD or BAD; solved nodes end, as in a rollout."""
    rng = np.random.default_rng(seed)
    layout = TreeLayout(branching)
    tree = empty_tree(
        layout,
        num_prompts=PROMPTS,
        prompt_length=2,
        response_length=LIMIT,
        feedback_length=2,
    )
    tree.prompt_lengths[:] = 2
    for place in np.ndindex(tree.node_mask.shape):
        parent = layout.parents[place[1]]
        above = (place[0], parent)
        if parent != NO_PARENT and not tree.node_mask[above]:
            continue
        if parent != NO_PARENT and expand == "unsolved" and tree.solved[above]:
            continue
        token = GOOD if rng.random() < 0.5 else BAD
        tree.node_mask[place] = tree.context_mask[place] = True
        tree.solved[place] = tree.rewards[place] = token == GOOD
        tree.response_lengths[place] = rng.integers(1, LIMIT + 1)
        tree.response_tokens[place] = token
        tree.behavior_log_probs[place] = -np.log(VOCABULARY)
    return tree


@pytest.mark.parametrize("algorithm", algorithms.SETTINGS)
def test_two_steps_of_each_preset_learn_what_pays(algorithm):
    config = preset(algorithm)
    step = Table(
        None,
        objective=config.objective,
        optimizer=config.optimizer,
        num_steps=2,
        head_chunk=1,
        policy=Policy(None),
    )
    logits = jnp.zeros(VOCABULARY)
    state, reference = step.init({"logits": logits + 0}), {"logits": logits}
    for number in range(2):
        tree = grown(config.rollout.branching, expand=config.rollout.expand)
        assert tree.solved.any() and not tree.solved[tree.node_mask].all()
        state, assigned, metrics = update(
            step,
            state,
            tree,
            config=config,
            key=jax.random.key(number),
            reference=reference if config.objective.kl_coefficient else None,
        )
        assert all(np.isfinite(value) for value in metrics.values()), metrics
        assert metrics["tokens/trained"] > 0
        assert (assigned.advantages[~tree.node_mask] == 0).all()
    assert int(state.step) == 2
    learnt = np.asarray(state.params["logits"])
    assert learnt[GOOD] > 0.01 > -0.01 > learnt[BAD], learnt


@pytest.mark.parametrize("algorithm", [*WHOLE, *OF_TURNS, "reapo"])
def test_the_credit_of_a_preset_is_that_of_its_function(algorithm):
    config = preset(algorithm)
    tree = grown(config.rollout.branching, seed=1)
    more = {"num_turns": tree.layout.num_turns} if algorithm in OF_TURNS else {}
    if algorithm == "reinforce_pp":
        more = {"response_lengths": tree.response_lengths}
    arrays = (tree.rewards, tree.layout, tree.node_mask)
    expected = getattr(credit, algorithm)(*arrays, **more)
    assigned = credit.assign(tree, config.credit)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-6)
    assert np.asarray(expected).any()


@pytest.mark.parametrize("backup", ["mars", "mers"])
def test_the_credit_of_murphy(backup):
    config = preset(f"murphy_{backup}")
    tree = grown(config.rollout.branching, seed=1)
    expected = credit.murphy(
        tree.rewards, tree.layout, tree.node_mask, num_turns=2, backup=backup
    )
    assigned = credit.assign(tree, config.credit)
    np.testing.assert_allclose(assigned.advantages, expected, rtol=1e-6)


def test_score_pays_for_the_second_attempt_that_improves():
    config = preset("score")
    tree = grown(config.rollout.branching, expand="all")
    assigned = credit.assign(tree, config.credit)
    first, second = (tree.layout.turn_slice(turn) for turn in range(2))
    gained = tree.rewards[:, second] - tree.rewards[:, first]
    advantages = np.asarray(assigned.advantages)[:, second]
    mixed = (gained > 0).any(axis=1) & (gained < 0).any(axis=1)
    assert mixed.any()
    assert (advantages[mixed][gained[mixed] > 0] > 0).all()
    assert (advantages[mixed][gained[mixed] < 0] < 0).all()
    np.testing.assert_array_equal(assigned.returns[:, first], tree.rewards[:, first])
    expected = tree.rewards[:, second] + 10.0 * gained
    np.testing.assert_array_equal(assigned.returns[:, second], expected)
