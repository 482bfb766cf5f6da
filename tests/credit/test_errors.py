"""Bad arguments are refused in a sentence that names them; tracers pass unchecked."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout, empty_tree

REWARDS = np.array([[0.0, 0.5, 1.0]], np.float32)
CHAIN = np.array([-1, 0, 1], np.int32)
MASK = np.ones((1, 3), bool)
FOREST_RULES = {
    "mars": functools.partial(credit.mars, num_turns=3),
    "mers": functools.partial(credit.mers, num_turns=3),
    "murphy": functools.partial(credit.murphy, num_turns=3),
    "trajectory": functools.partial(credit.trajectory, num_turns=3),
    "calibrated_weights": functools.partial(credit.calibrated_weights, num_turns=3),
    "prune_inter": functools.partial(credit.prune_inter, num_turns=3, budget=1),
    "prune_intra": functools.partial(credit.prune_intra, num_turns=3, budget=1),
    "cal_grpo": functools.partial(credit.cal_grpo, num_turns=3),
    "multi_attempt_grpo": functools.partial(credit.multi_attempt_grpo, num_turns=3),
    "grpo": credit.grpo,
    "reapo": credit.reapo,
    "rloo": credit.rloo,
    "reinforce_pp": lambda r, p, m: credit.reinforce_pp(
        r, p, m, response_lengths=np.ones(m.shape, int)
    ),
}
RULES_OF_TURNS = [
    "mars",
    "mers",
    "murphy",
    "trajectory",
    "calibrated_weights",
    "cal_grpo",
    "multi_attempt_grpo",
]


@pytest.fixture(params=FOREST_RULES)
def rule(request):
    return FOREST_RULES[request.param]


@pytest.mark.parametrize(
    "parents",
    [
        np.array([-1, 1, 0]),  # its own parent
        np.array([1, -1, 0]),  # a parent after its child
        np.array([-1, 0, 3]),  # no such slot
        np.array([-2, 0, 1]),  # roots are -1
        np.array([-1.0, 0.0, 1.0]),
        np.array([-1, 0]),
        np.array([[-1, 0, 1], [-1, 0, 1]]),  # two rows for a batch of one
        TreeLayout(branching=(2,)),
    ],
    ids=str,
)
def test_parents(rule, parents):
    with pytest.raises(ValueError, match="parents"):
        rule(REWARDS, parents, MASK)


def test_parents_of_one_row_only(rule):
    rewards, mask = np.tile(REWARDS, (2, 1)), np.tile(MASK, (2, 1))
    parents = np.array([[-1, 0, 1], [-1, 2, 0]])
    with pytest.raises(ValueError, match="parents"):
        rule(rewards, parents, mask)


def test_parents_in_padding_hold_anything(rule):
    mask = np.array([[True, True, False]])
    for junk in (2, 3, -2, 2**31 - 1):
        result = rule(REWARDS, np.array([-1, 0, junk], np.int32), mask)
        assert np.all(np.isfinite(result))


@pytest.mark.parametrize("name", RULES_OF_TURNS)
@pytest.mark.parametrize("parents", [CHAIN, TreeLayout(branching=(1, 1, 1))], ids=str)
@pytest.mark.parametrize("num_turns", [2, 1, 0])
def test_num_turns_below_the_depth(name, parents, num_turns):
    with pytest.raises(ValueError, match=f"num_turns.*{num_turns}"):
        getattr(credit, name)(REWARDS, parents, MASK, num_turns=num_turns)


def test_depth_counts_present_nodes_only():
    mask = np.array([[True, True, False]])
    credit.mars(REWARDS, CHAIN, mask, num_turns=2)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_mask_must_be_bool(rule, dtype):
    with pytest.raises(ValueError, match="node_mask must be bool"):
        rule(REWARDS, CHAIN, MASK.astype(dtype))


@pytest.mark.parametrize(
    ("rewards", "mask", "name"),
    [
        (REWARDS[0], MASK, "(rewards|returns) must have the shape of node_mask"),
        (REWARDS[:, :2], MASK, "(rewards|returns) must have the shape of node_mask"),
        (REWARDS[None], MASK, "(rewards|returns) must have the shape of node_mask"),
        (REWARDS[0], MASK[0], "node_mask"),
    ],
    ids=str,
)
def test_shapes(rule, rewards, mask, name):
    with pytest.raises(ValueError, match=name):
        rule(rewards, CHAIN, mask)


@pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan")])
def test_discount(discount):
    with pytest.raises(ValueError, match=r"discount.*\[0, 1\]"):
        credit.mers(REWARDS, CHAIN, MASK, num_turns=3, discount=discount)
    with pytest.raises(ValueError, match=r"discount.*\[0, 1\]"):
        credit.murphy(
            REWARDS, CHAIN, MASK, num_turns=3, backup="mers", discount=discount
        )


@pytest.mark.parametrize("name", ["mers", "calibrated_weights", "cal_grpo"])
def test_solved_must_fit(name):
    solved = np.zeros((1, 2), bool)
    with pytest.raises(ValueError, match="solved"):
        getattr(credit, name)(REWARDS, CHAIN, MASK, num_turns=3, solved=solved)


@pytest.mark.parametrize("name", ["mers", "calibrated_weights", "cal_grpo"])
def test_solved_must_be_bool(name):
    # Rewards passed as `solved` would count every nonzero one as solved.
    with pytest.raises(ValueError, match="solved must be bool"):
        getattr(credit, name)(REWARDS, CHAIN, MASK, num_turns=3, solved=REWARDS)


def test_unknown_names():
    with pytest.raises(ValueError, match=r"backup.*mars.*mers.*'best'"):
        credit.murphy(REWARDS, CHAIN, MASK, num_turns=3, backup="best")
    ids = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match=r"baseline.*leave_one_out.*'median'"):
        credit.group_advantages(REWARDS, ids, MASK, baseline="median")
    with pytest.raises(ValueError, match=r"scale.*std.*'max'"):
        credit.group_advantages(REWARDS, ids, MASK, scale="max")


@pytest.mark.parametrize("ddof", [-1, 2])
def test_ddof(ddof):
    with pytest.raises(ValueError, match=f"ddof.*{ddof}"):
        credit.grpo(REWARDS, CHAIN, MASK, ddof=ddof)


@pytest.mark.parametrize(
    "groups", [np.array([0, 1, 4]), np.array([0, -1, 1]), np.zeros(2, int)], ids=str
)
def test_groups(groups):
    with pytest.raises(ValueError, match="groups"):
        credit.group_advantages(REWARDS, groups, MASK)


def test_groups_beyond_num_groups():
    groups = np.array([0, 1, 2])
    credit.group_advantages(REWARDS, groups, MASK, num_groups=3)
    with pytest.raises(ValueError, match="groups"):
        credit.group_advantages(REWARDS, groups, MASK, num_groups=2)
    with pytest.raises(ValueError, match="num_groups must be >= 1; got 0"):
        credit.group_advantages(REWARDS, groups, MASK, num_groups=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("backup", "best"),
        ("group", "turn"),
        ("baseline", "median"),
        ("scale", "max"),
        ("ddof", 2),
        ("epsilon", -1.0),
        ("discount", 1.5),
        ("level", "token"),
        ("weight", "plugin"),
        ("pruning", "outer"),
        ("prune_score", "reward"),
        ("moments", "kept"),
        ("progress_bonus", -1.0),
        ("prune_budget", 2),
    ],
)
def test_config(field, value):
    tree = empty_tree(
        TreeLayout(branching=(3,)),
        num_prompts=1,
        prompt_length=1,
        response_length=1,
        feedback_length=0,
    )
    with pytest.raises(ValueError, match=field):
        credit.assign(tree, credit.CreditConfig(**{field: value}))


@pytest.mark.parametrize("budget", [0, -1])
def test_pruning_needs_a_budget(budget):
    config = credit.CreditConfig(pruning="intra", prune_budget=budget)
    with pytest.raises(ValueError, match=f"prune_budget must be.*>= 1.*{budget}"):
        config.check()


@pytest.mark.parametrize("branching", [(3,), (3, 1, 1)])
def test_progress_bonus_needs_two_turns(branching):
    config = credit.CreditConfig(progress_bonus=10.0)
    config.check_layout(TreeLayout(branching=(3, 1)))
    with pytest.raises(ValueError, match=r"progress_bonus.*2 turns.*10"):
        config.check_layout(TreeLayout(branching=branching))


def test_response_lengths_must_fit():
    with pytest.raises(ValueError, match="response_lengths must have the shape"):
        credit.reinforce_pp(REWARDS, CHAIN, MASK, response_lengths=np.ones(3, int))


def test_values_are_not_checked_under_jit(rule):
    backwards = jnp.array([2, 0, -1], jnp.int32)
    result = jax.jit(rule)(REWARDS, backwards, MASK)
    assert result.shape == MASK.shape


def test_discount_may_be_traced():
    rule = jax.jit(
        lambda discount: credit.mers(
            REWARDS, CHAIN, MASK, num_turns=3, discount=discount
        )
    )
    assert rule(2.0).shape == MASK.shape
