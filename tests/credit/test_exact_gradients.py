"""Estimators averaged over every outcome, against the gradients they should equal.

Probabilities are float64, advantages float32 from the kernels: equal means to 1e-6.
"""

import numpy as np
import pytest

from rlvr_jax import credit
from tests.credit import exact_gradients as exact
from tests.credit import toy as toys

RANDOM = np.random.default_rng(7)
# Parameters of a policy with three answers and up to three attempts, per sharing.
THETA = {
    "history": RANDOM.normal(size=(13, 3)),
    "stage": RANDOM.normal(size=(3, 3)),
    "shared": RANDOM.normal(size=(1, 3)),
}
CHAINS = [((4, 1), 3), ((3, 1, 1), 3)]


def theta_for(toy, sharing):
    rows = toys.rows_of(toy, sharing).max() + 1
    return THETA[sharing][:rows, : toy.num_answers]


def equal(found, expected):
    assert np.abs(expected).max() > 1e-3  # something to compare with
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def success_of(theta):
    return toys.softmax(theta)[:, 0]


@pytest.mark.parametrize(
    ("branching", "answers", "count"),
    [((3,), 3, 27), ((2, 1), 3, 49), ((2, 1, 1), 2, 16), ((2, 2), 2, 25)],
)
def test_every_outcome_is_listed_once(branching, answers, count):
    toy = toys.gated(branching, answers)
    codes, policy = toys.outcomes(toy), toys.softmax(THETA["history"])
    assert len(codes) == len(np.unique(codes, axis=0)) == count
    policy = policy[: len(toy.turns), :answers]
    policy = policy / policy.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(toys.probabilities(toy, policy).sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("branching", [(3, 2), (3, 1, 1)])
def test_closed_forms_are_the_means_over_outcomes(branching):
    """The recursions give what the enumeration counts, so one checks the other."""
    toy = toys.gated(branching, 2)
    policy = toys.softmax(THETA["history"][: len(toy.turns), :2])
    codes = toys.outcomes(toy)
    rewards = np.where(codes < 0, 0, codes % 2).astype(np.float32)
    rewards, layout, mask = toys.padded(rewards, toy.layout, codes >= 0)
    chances = toys.probabilities(toy, policy)
    turns = {"num_turns": len(branching)}

    def of_first(returns):
        return chances @ np.asarray(returns, np.float64)[: len(chances), 0]

    best = credit.mars(rewards, layout, mask, **turns)
    mean = credit.mers(rewards, layout, mask, discount=0.5, **turns)
    assert of_first(best) == pytest.approx(toys.solved_at_last(toy, policy), abs=1e-6)
    assert of_first(mean) == pytest.approx(toys.mean_backup(toy, policy, 0.5), abs=1e-6)
    if branching[1:] == (1, 1):
        failed = (codes >= 0) & (codes % 2 == 0)
        per_rollout = chances @ failed.sum(axis=1) / branching[0]
        failures = toys.expected_failures(toy, policy)
        assert per_rollout == pytest.approx(failures, abs=1e-12)


@pytest.mark.parametrize("rollouts", [2, 4])
def test_one_attempt_climbs_pass_at_1(rollouts):
    toy = toys.gated((rollouts,), 3)
    theta = theta_for(toy, "stage")
    target = toys.gradient_of(toy, theta, "stage", toys.pass_at(1))

    def found(rule):
        return toys.expected_gradient(toy, theta, "stage", rule)

    equal(found(exact.own), target)
    equal(found(credit.rloo), target)
    equal(found(credit.dr_grpo), (rollouts - 1) / rollouts * target)
    # A standard deviation keeps the direction of one prompt and changes its length.
    scaled = found(credit.grpo)
    assert exact.cosine(scaled, target) == pytest.approx(1, abs=1e-9)
    assert exact.ratio(scaled, target) > 1.1 * (rollouts - 1) / rollouts


@pytest.mark.parametrize("rollouts", [2, 4])
def test_maxrl_climbs_the_likelihood_to_order_g_minus_1(rollouts):
    toy = toys.gated((rollouts,), 3)
    theta = theta_for(toy, "stage")

    def rule(rewards, layout, mask):
        return credit.maxrl(rewards, layout, mask, epsilon=exact.TINY)

    found = toys.expected_gradient(toy, theta, "stage", rule)
    orders = {
        k: toys.gradient_of(toy, theta, "stage", toys.truncated_likelihood(k))
        for k in (rollouts - 1, rollouts)
    }
    equal(found, orders[rollouts - 1])
    assert np.abs(found - orders[rollouts]).max() > 1e-3
    # Dividing without subtracting gives one order more: the mean costs pass@G.
    rule = exact.grouped(baseline="none", scale="mean", epsilon=exact.TINY)
    without = toys.expected_gradient(toy, theta, "stage", rule)
    equal(without, orders[rollouts])
    pass_at_g = toys.gradient_of(toy, theta, "stage", toys.pass_at(rollouts))
    equal((without - found) * rollouts, pass_at_g)


@pytest.mark.parametrize("sharing", ["history", "stage", "shared"])
@pytest.mark.parametrize(("branching", "answers"), CHAINS)
def test_trajectory_credit_climbs_solved_at_last(branching, answers, sharing):
    toy = toys.gated(branching, answers)
    theta = theta_for(toy, sharing)
    target = toys.gradient_of(toy, theta, sharing, toys.solved_at_last)
    rollouts = branching[0]
    found = toys.expected_gradient(toy, theta, sharing, exact.trajectory_centred)
    equal(found, (rollouts - 1) / rollouts * target)
    # With the standard deviation: the direction stays, the length does not.
    rule = exact.with_turns("multi_attempt_grpo")
    found = toys.expected_gradient(toy, theta, sharing, rule)
    assert exact.cosine(found, target) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("branching", "answers"), CHAINS)
def test_best_of_below_is_the_return_of_solved_at_last(branching, answers):
    """MaRS: uncentred it is exact; with siblings on a chain, for attempt 1 alone.

    A retry on a chain has no siblings, so nothing reaches it.
    """
    toy = toys.gated(branching, answers)
    theta = theta_for(toy, "history")
    target = toys.gradient_of(toy, theta, "history", toys.solved_at_last)

    def returns(rewards, layout, mask):
        return credit.mars(rewards, layout, mask, num_turns=len(branching))

    equal(toys.expected_gradient(toy, theta, "history", returns), target)
    siblings = exact.grouped(backup="mars", scale="none")
    found = toys.expected_gradient(toy, theta, "history", siblings)
    equal(found[:1], (branching[0] - 1) / branching[0] * target[:1])
    np.testing.assert_array_equal(found[1:], 0.0)


@pytest.mark.parametrize("backup", ["mars", "mers"])
def test_trees_climb_the_expected_return_attempt_by_attempt(backup):
    """First attempts: E[return]; retries: their own success where they happen."""
    first, second = branching = (3, 2)
    toy = toys.gated(branching, 2)
    theta = theta_for(toy, "history")
    found = toys.expected_gradient(
        toy, theta, "history", exact.grouped(backup=backup, scale="none")
    )
    form = {
        "mars": toys.solved_at_last,
        "mers": lambda toy, policy: toys.mean_backup(toy, policy, 0.9),
    }[backup]
    target = toys.gradient_of(toy, theta, "history", form)
    equal(found[:1], (first - 1) / first * target[:1])
    field = toys.gradient_of(toy, theta, "history", toys.own_attempts)
    equal(found[1:], (second - 1) * field[1:])


def test_mean_backup_presses_to_solve_early():
    """MeRS weighs the first success by 1 - discount p_2 / 2, Ver@2 by 1 - p_2."""
    toy, theta = toys.gated((3, 2)), exact.turn_logits(0.3, 0.6)
    one = toys.gradient_of(toy, theta, "stage", toys.pass_at(1))[0]
    rule = exact.grouped(backup="mers", scale="none", discount=0.9)
    found = toys.expected_gradient(toy, theta, "stage", rule)[0]
    equal(found, 2 / 3 * (1 - 0.9 * 0.6 / 2) * one)


@pytest.mark.parametrize(("branching", "answers"), CHAINS)
def test_weighted_raw_rewards(branching, answers):
    """True weights make raw rewards exact if no failure teaches more than another."""
    toy = toys.gated(branching, answers)
    theta = theta_for(toy, "stage")[: len(branching)]
    success = success_of(theta)
    for weights, objective, sign in (
        (exact.true_weights, toys.solved_at_last, 1),
        (exact.failure_weights, toys.expected_failures, -1),
    ):
        rule = exact.weighted(exact.own, weights(*success))
        target = sign * toys.gradient_of(toy, theta, "stage", objective)
        equal(toys.expected_gradient(toy, theta, "stage", rule), target)
        unweighted = toys.expected_gradient(toy, theta, "stage", exact.own)
        assert np.abs(unweighted - target).max() > 5e-3


def test_no_weight_per_attempt_is_exact_when_failures_teach():
    """After one wrong answer p_2 = .6, after the other .1: the choice has a value.

    Weights per attempt multiply successes only and cannot see it.
    """
    toy, theta = toys.gated((4, 1), 3), exact.HISTORY
    policy = toys.softmax(theta)
    reached = policy[0, 1:] / policy[0, 1:].sum()
    mean = float(reached @ policy[2:4, 0])
    for weights, objective in (
        (exact.true_weights, toys.solved_at_last),
        (exact.failure_weights, toys.expected_failures),
    ):
        target = toys.gradient_of(toy, theta, "history", objective)
        rule = exact.weighted(exact.own, weights(0.4, mean))
        found = toys.expected_gradient(toy, theta, "history", rule)
        # The right answer's logit is pushed as it should be; the wrong ones' are not.
        assert abs(exact.cosine(found[0], target[0])) < 0.98
    found = toys.expected_gradient(toy, theta, "history", exact.trajectory_centred)
    target = toys.gradient_of(toy, theta, "history", toys.solved_at_last)
    assert exact.cosine(found, target) == pytest.approx(1, abs=1e-9)


def test_stated_ratios_of_plug_in_weights_and_std():
    """At p = (.7, .3), G = 4: 1.15 for raw rewards, 1.42 and .57 for CAL-GRPO."""
    toy, theta = toys.gated((4, 1)), exact.turn_logits(0.7, 0.3)
    target = toys.gradient_of(toy, theta, "stage", toys.solved_at_last)

    def ratios(rule):
        found = toys.expected_gradient(toy, theta, "stage", rule)
        return [exact.ratio(found[k], target[k]) for k in (0, 1)]

    rule = exact.weighted(exact.own, exact.plug_in)
    assert ratios(rule) == pytest.approx([1.147, 1], abs=1e-3)
    rule = exact.with_turns("cal_grpo")
    assert ratios(rule) == pytest.approx([1.416, 0.568], abs=1e-3)
    # The true weights do not help: the standard deviation and the few who retry do it.
    rule = exact.weighted(exact.grouped("stage"), exact.true_weights(0.7, 0.3))
    assert ratios(rule) == pytest.approx([1.416, 0.568], abs=1e-3)
    # Centred, plug-in weights are exact for attempt 1: with no retry in the group all
    # first attempts are solved, and an equal group pushes nothing. Attempt 2 lacks the
    # groups in which one rollout retried: 1 - (1 - Q)^(G - 1), Q = .3.
    rule = exact.grouped("stage", baseline="leave_one_out", scale="none")
    found = ratios(exact.weighted(rule, exact.plug_in))
    assert found == pytest.approx([1, 1 - 0.7**3], abs=1e-6)


def test_raw_rewards_follow_failures_only_without_a_last_attempt():
    """c_k is 1 / p for every k of an endless chain; a last attempt has c = 1."""
    toy = toys.gated((2, 1))
    costs = exact.failure_weights(*[0.3] * 60)(None, toy.layout, None)
    np.testing.assert_allclose(costs, 1 / 0.3, rtol=1e-6)
    assert exact.failure_weights(0.3, 0.3)(None, toy.layout, None)[0, 0] == 1.7
    theta = exact.turn_logits(0.3, 0.3)
    failures = -toys.gradient_of(toy, theta, "stage", toys.expected_failures)
    found = toys.expected_gradient(toy, theta, "stage", exact.own)
    assert exact.cosine(found, failures) == pytest.approx(0.976, abs=1e-3)
    # Attempts that share every parameter have one direction, that of p itself.
    theta = exact.turn_logits(0.3)
    failures = -toys.gradient_of(toy, theta, "shared", toys.expected_failures)
    found = toys.expected_gradient(toy, theta, "shared", exact.own)
    assert exact.cosine(found, failures) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("sharing", ["history", "stage", "shared"])
@pytest.mark.parametrize(("branching", "answers"), [((1, 1), 3), *CHAINS])
def test_pooled_centring_subtracts_the_mean_of_the_pool(branching, answers, sharing):
    """Per rollout: own attempts less grad E[pooled mean] / G; E[1 / tau] for G = 1."""
    toy = toys.gated(branching, answers)
    theta = theta_for(toy, sharing)
    rule = exact.grouped("prompt", scale="none")
    found = toys.expected_gradient(toy, theta, sharing, rule)
    field = toys.gradient_of(toy, theta, sharing, toys.own_attempts)
    pool = toys.gradient_of(toy, theta, sharing, toys.pooled_mean)
    equal(found, field - pool / branching[0])
    if branching[0] == 1:
        inverse = toys.gradient_of(toy, theta, sharing, toys.inverse_attempts)
        equal(pool, inverse)


def test_progress_bonus_leaves_the_first_attempt_alone():
    """SCoRe, two attempts always, centred per stage: p_1 and (1 + alpha) p_2."""
    retry = ((True, True),) * 2
    toy = toys.Toy((4, 1), toys.gated((4, 1)).grades, (0.0, 1.0), retry)
    theta = THETA["history"][:3, :2]

    def rule(rewards, layout, mask):
        shaped = credit.progress_bonus(rewards, layout, mask, alpha=10.0)
        groups = credit.stage_groups(layout, num_turns=2)
        return credit.group_advantages(shaped, groups, mask, scale="none")

    found = toys.expected_gradient(toy, theta, "history", rule)
    first = toys.gradient_of(toy, theta, "history", toys.pass_at(1))
    equal(found[0], 3 / 4 * first[0])
    policy = toys.softmax(theta)
    for a in (0, 1):
        p = policy[1 + a, 0]
        push = policy[0, a] * p * (1 - p) * np.array([1.0, -1.0])
        np.testing.assert_allclose(found[1 + a], 3 / 4 * 11 * push, atol=2e-6)
