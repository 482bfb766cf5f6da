"""Numbers worked out by hand: the kernels and the oracle must both give them."""

import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout
from tests.credit import oracle

# (reward, children). A is solved at once, B is repaired by a child, C by grandchildren.
A = (1.0, [])
B = (
    0.5,
    [
        (1.0, []),
        (0.25, [(1.0, []), (0.0, []), (0.5, [])]),
        (0.0, [(0.0, []), (0.0, []), (0.0, [])]),
    ],
)
C = (
    0.0,
    [
        (0.0, [(0.0, []), (0.0, []), (0.0, [])]),
        (0.5, [(0.5, []), (1.0, []), (1.0, [])]),
        (0.25, [(0.25, []), (0.0, []), (0.25, [])]),
    ],
)
CHAINS = [(1.0, []), (0.0, [(1.0, [])]), (0.0, [(0.0, [])]), (0.0, [(1.0, [])])]


def ragged(roots):
    """Level-order arrays with a slot per node that is there, as a batch of one row."""
    rewards, parents = [], []
    level = [(-1, root) for root in roots]
    while level:
        following = []
        for parent, (reward, children) in level:
            following += [(len(rewards), child) for child in children]
            rewards.append(reward)
            parents.append(parent)
        level = following
    mask = np.ones((1, len(rewards)), bool)
    return np.array([rewards], np.float32), np.array(parents, np.int32), mask


def padded(roots, branching):
    """The same forest in the slots of a full tree; empty slots hold NaN."""
    layout = TreeLayout(branching=branching)
    rewards = np.full((1, layout.num_nodes), np.nan, np.float32)
    parents = oracle.level_order_parents(branching)

    def place(slot, node):
        rewards[0, slot] = node[0]
        below = [c for c, parent in enumerate(parents) if parent == slot]
        for child_slot, child in zip(below, node[1], strict=False):
            place(child_slot, child)

    for slot, root in enumerate(roots):
        place(slot, root)
    return rewards, layout, ~np.isnan(rewards)


@pytest.fixture(params=["kernel", "oracle"])
def rules(request):
    return {"kernel": credit, "oracle": oracle}[request.param]


@pytest.fixture(params=["ragged", "padded"])
def big_tree(request):
    """The three-turn tree, and its first turn and second turn slots."""
    if request.param == "ragged":
        return ragged([A, B, C]), [3, 4, 5], [6, 7, 8]
    return padded([A, B, C], (3, 3, 3)), [6, 7, 8], [9, 10, 11]


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def test_layout_is_level_order():
    layout = TreeLayout(branching=(3, 2))
    assert layout.parents.tolist() == [-1, -1, -1, 0, 0, 1, 1, 2, 2]
    assert layout.turns.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert (layout.num_nodes, layout.num_turns) == (9, 2)
    assert TreeLayout(branching=(8, 8)).num_nodes == 72
    assert oracle.level_order_parents((3, 2)) == layout.parents.tolist()


def test_mars_gives_every_repaired_attempt_full_credit(rules, big_tree):
    arrays, below_b, below_c = big_tree
    returns = rules.mars(*arrays, num_turns=3)[0]
    close(returns[:3], [1.0, 1.0, 1.0])
    close(returns[np.array(below_b)], [1.0, 1.0, 0.0])
    close(returns[np.array(below_c)], [0.0, 1.0, 0.25])


@pytest.mark.parametrize(
    ("discount", "expected"),
    [
        (1.0, [1.0, 0.319444, 0.097222]),
        (0.9, [1.0, 0.301667, 0.0825]),
        (0.5, [1.0, 0.236111, 0.034722]),
        (0.0, [1.0, 0.166667, 0.0]),
    ],
)
def test_mers_first_turn(rules, big_tree, discount, expected):
    arrays = big_tree[0]
    returns = rules.mers(*arrays, num_turns=3, discount=discount)
    close(returns[0, :3], expected)


def test_mers_second_turn_and_default_discount(rules, big_tree):
    arrays, below_b, below_c = big_tree
    returns = rules.mers(*arrays, num_turns=3)[0]
    close(returns[np.array(below_b)], [1.0, 0.35, 0.0])
    close(returns[np.array(below_c)], [0.0, 0.625, 0.2])


@pytest.mark.parametrize(
    ("ddof", "expected"),
    [
        (1, [1.12409, -0.33334, -0.79075]),
        (0, [1.37673, -0.40826, -0.96847]),
    ],
)
def test_murphy_mers_root_group(rules, big_tree, ddof, expected):
    arrays = big_tree[0]
    advantages = rules.murphy(
        *arrays, num_turns=3, backup="mers", ddof=ddof, epsilon=1e-6
    )
    close(advantages[0, :3], expected, 2e-5)


def test_murphy_mars_groups_are_the_children_of_one_node(rules, big_tree):
    arrays, below_b, below_c = big_tree
    advantages = rules.murphy(*arrays, num_turns=3)[0]
    # Roots all have return 1. Below B: [1, 1, 0], mean 2/3, std 1/sqrt(3).
    close(advantages[:3], [0.0, 0.0, 0.0], 0.0)
    third = 3**-0.5
    close(advantages[np.array(below_b)], [third, third, -2 * third])
    # Below C: [0, 1, 1/4], mean 5/12, deviations (-5, 7, -2)/12, variance 39/144.
    expected = np.array([-5.0, 7.0, -2.0]) / 39**0.5
    close(advantages[np.array(below_c)], expected)


def test_two_turn_backups(rules):
    arrays = ragged([(1.0, []), (0.5, [(1.0, []), (0.0, [])])])
    close(rules.mars(*arrays, num_turns=2)[0, :2], [1.0, 1.0])
    close(rules.mers(*arrays, num_turns=2, discount=1.0)[0, :2], [1.0, 0.5])
    close(rules.mers(*arrays, num_turns=2, discount=0.9)[0, :2], [1.0, 0.475])


def test_mers_without_children_keeps_the_divisor(rules):
    rewards = np.array([[0.6, 1.0]], np.float32)
    parents, mask = np.array([-1, -1]), np.ones((1, 2), bool)
    close(rules.mers(rewards, parents, mask, num_turns=3), [[0.2, 1.0]])


def test_mers_judges_solved_on_the_raw_reward(rules):
    # A perfect child lifts the parent's return, never its being unsolved.
    arrays = ragged([(0.9, [(1.0, [])])])
    close(rules.mers(*arrays, num_turns=2, discount=1.0), [[0.95, 1.0]])
    solved = np.array([[True, False]])
    close(rules.mers(*arrays, num_turns=2, solved=solved), [[0.9, 1.0]])
    close(rules.mers(*arrays, num_turns=2, max_reward=0.9), [[0.9, 1.0]])


@pytest.mark.parametrize(
    ("ddof", "right", "wrong"), [(1, 1.06904, -0.80178), (0, 1.1547, -0.86602)]
)
@pytest.mark.parametrize("shape", ["ragged", "padded"])
def test_reapo_pools_all_attempts(rules, ddof, right, wrong, shape):
    arrays = ragged(CHAINS) if shape == "ragged" else padded(CHAINS, (4, 1))
    rewards, _, mask = arrays
    expected = np.where(rewards == 1.0, right, wrong) * mask
    close(rules.reapo(*arrays, ddof=ddof), expected, 2e-5)


def test_stage_and_trajectory_groups_by_id(rules):
    rewards, _, mask = ragged(CHAINS)
    stages = np.array([0, 0, 0, 0, 1, 1, 1], np.int32)
    advantages = rules.group_advantages(rewards, stages, mask)[0]
    close(advantages[:4], [1.5, -0.5, -0.5, -0.5])
    close(advantages[4:], [0.57735, -1.1547, 0.57735])
    best = np.array([[1.0, 1.0, 0.0, 1.0]], np.float32)
    one_group, all_there = np.zeros(4, np.int32), np.ones((1, 4), bool)
    close(
        rules.group_advantages(best, one_group, all_there)[0],
        [0.5, 0.5, -1.5, 0.5],
    )


@pytest.mark.parametrize(
    ("baseline", "scale", "expected"),
    [
        ("mean", "mean", [3.0, -1.0, -1.0, -1.0]),
        ("leave_one_out", "none", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("mean", "std", [1.5, -0.5, -0.5, -0.5]),
        ("mean", "none", [0.75, -0.25, -0.25, -0.25]),
        ("leave_one_out", "std", [2.0, -2 / 3, -2 / 3, -2 / 3]),
        ("leave_one_out", "mean", [4.0, -4 / 3, -4 / 3, -4 / 3]),
        ("none", "none", [1.0, 0.0, 0.0, 0.0]),
        ("none", "std", [2.0, 0.0, 0.0, 0.0]),
        ("none", "mean", [4.0, 0.0, 0.0, 0.0]),
    ],
)
def test_baselines_and_scales(rules, baseline, scale, expected):
    rewards = np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)
    mask = np.ones((1, 4), bool)
    advantages = rules.group_advantages(
        rewards, np.zeros(4, np.int32), mask, baseline=baseline, scale=scale
    )
    close(advantages[0], expected, 2e-5)


def test_grpo_on_one_turn(rules):
    rewards = np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)
    mask = np.ones((1, 4), bool)
    roots = np.full(4, -1, np.int32)
    close(rules.grpo(rewards, roots, mask)[0], [1.5, -0.5, -0.5, -0.5], 2e-5)
    # Population std is sqrt(3)/4, so the deviations 3/4 and -1/4 become these.
    root3 = 3**0.5
    expected = [root3, -1 / root3, -1 / root3, -1 / root3]
    close(rules.grpo(rewards, roots, mask, ddof=0)[0], expected, 2e-5)
    # A large epsilon must land in the denominator: 0.75 / (0.5 + 0.5).
    close(rules.grpo(rewards, roots, mask, epsilon=0.5)[0, 0], 0.75)


def test_group_ids(rules):
    parents = np.array([-1, -1, 0, 0, 1], np.int32)
    np.testing.assert_array_equal(rules.sibling_groups(parents), [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(rules.prompt_groups(parents), [0, 0, 0, 0, 0])
    rows = np.stack([parents, parents])
    np.testing.assert_array_equal(rules.sibling_groups(rows), rows + 1)
    np.testing.assert_array_equal(rules.prompt_groups(rows), rows * 0)
    layout = TreeLayout(branching=(2, 1))
    np.testing.assert_array_equal(rules.sibling_groups(layout), [0, 0, 1, 2])
    np.testing.assert_array_equal(rules.prompt_groups(layout), [0, 0, 0, 0])


def test_moments_are_two_pass(rules):
    # E[x^2] - E[x]^2 in float32 loses everything at this offset.
    rewards = np.array([[4096.0, 4096.25, 4096.5, 4096.75]], np.float32)
    mask = np.ones((1, 4), bool)
    advantages = rules.grpo(rewards, np.full(4, -1, np.int32), mask)
    expected = np.array([[-1.5, -0.5, 0.5, 1.5]]) / (5 / 3) ** 0.5
    close(advantages, expected, 1e-4)
