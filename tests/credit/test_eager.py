"""Kernels called without `jax.jit` compile once per shape, not once per call."""

import logging

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.tree import TreeLayout

LAYOUT = TreeLayout(branching=(3, 2))
MASK = np.ones((2, LAYOUT.num_nodes), bool)
REWARDS = np.random.default_rng(0).choice([0.0, 0.5, 1.0], MASK.shape)


@pytest.mark.parametrize(
    ("name", "options"),
    [("grpo", {}), ("reapo", {}), ("mars", {"num_turns": 2}), ("rloo", {})],
)
def test_a_second_call_compiles_nothing(name, options, caplog):
    rule, rewards = getattr(credit, name), REWARDS.astype(np.float32)
    rule(rewards, LAYOUT, MASK, **options)
    with caplog.at_level(logging.WARNING), jax.log_compiles(True):
        jax.block_until_ready(rule(rewards, LAYOUT, MASK, **options))
    compiled = [r.message for r in caplog.records if "XLA compilation" in r.message]
    assert not compiled
