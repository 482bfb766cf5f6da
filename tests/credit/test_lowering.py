"""On a static layout the kernels need no scatter, and never the host."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout, empty_tree

LAYOUT = TreeLayout(branching=(4, 3, 2))
SHAPE = (2, LAYOUT.num_nodes)
REWARDS, MASK = jnp.zeros(SHAPE), jnp.ones(SHAPE, bool)

KERNELS = {
    "mars": functools.partial(credit.mars, num_turns=3),
    "mers": functools.partial(credit.mers, num_turns=3),
    "trajectory": functools.partial(credit.trajectory, num_turns=3),
    "calibrated_weights": functools.partial(credit.calibrated_weights, num_turns=3),
    "prune_inter": functools.partial(credit.prune_inter, num_turns=3, budget=2),
    "prune_intra": functools.partial(credit.prune_intra, num_turns=3, budget=2),
    "grpo": credit.grpo,
    "dr_grpo": credit.dr_grpo,
    "rloo": credit.rloo,
    "maxrl": credit.maxrl,
    "murphy": functools.partial(credit.murphy, num_turns=3, backup="mers"),
    "reapo": credit.reapo,
    "cal_grpo": functools.partial(credit.cal_grpo, num_turns=3),
    "multi_attempt_grpo": functools.partial(credit.multi_attempt_grpo, num_turns=3),
    "reinforce_pp": functools.partial(
        credit.reinforce_pp, response_lengths=np.ones(SHAPE, np.int32)
    ),
}


def lowered(function, *arguments):
    return jax.jit(function).lower(*arguments).as_text()


def is_clean(text):
    return "scatter" not in text and "callback" not in text


@pytest.mark.parametrize("name", KERNELS)
def test_no_scatter_and_no_callback(name):
    kernel = KERNELS[name]
    assert is_clean(lowered(lambda r, m: kernel(r, LAYOUT, m), REWARDS, MASK))


def test_progress_bonus():
    layout = TreeLayout(branching=(4, 2))
    arrays = jnp.zeros((2, 12)), jnp.ones((2, 12), bool)
    assert is_clean(
        lowered(lambda r, m: credit.progress_bonus(r, layout, m, alpha=10.0), *arrays)
    )


@pytest.mark.parametrize("name", ["none", "inter", "intra"])
def test_assign(name):
    config = credit.CreditConfig(
        backup="mers",
        group="stage",
        level="trajectory",
        weight="calibrated",
        whiten=True,
        pruning=name,
        prune_budget=0 if name == "none" else 2,
    )
    tree = empty_tree(
        LAYOUT, num_prompts=2, prompt_length=1, response_length=1, feedback_length=0
    )
    assert is_clean(lowered(lambda tree: credit.assign(tree, config), tree))


def test_what_is_looked_for_would_be_found():
    parents = jnp.asarray(LAYOUT.parents)
    assert "scatter" in lowered(
        lambda r, p, m: credit.mars(r, p, m, num_turns=3), REWARDS, parents, MASK
    )

    def through_the_host(rewards):
        shape = jax.ShapeDtypeStruct(rewards.shape, rewards.dtype)
        return jax.pure_callback(np.asarray, shape, rewards)

    assert "callback" in lowered(through_the_host, REWARDS)
