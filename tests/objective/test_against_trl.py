"""Losses and gradients of TRL's own code (tests/goldens/trl), number by number.

TRL sums padded rows of one response each; here the same responses are packed two to a
row, with the weights of `token_weights` and the advantages of `credit`.
"""

import pathlib

import jax
import numpy as np
import pytest

from rlvr_jax import credit
from rlvr_jax.objective import TargetTokens, policy_loss, token_weights
from rlvr_jax.tree import TreeLayout

GOLDENS = dict(
    np.load(pathlib.Path(__file__).parents[1] / "goldens" / "trl" / "goldens.npz")
)
INPUT = {
    name.removeprefix("input/"): values
    for name, values in GOLDENS.items()
    if name.startswith("input/")
}
LAYOUT = TreeLayout((4,))
MAX_LENGTH = 12
# Ours for each of TRL's: (reduction, settings of the loss).
SAME = {
    "grpo": ("response", {}),
    "grpo_kl": ("response", {"kl_coefficient": 0.04}),
    "dapo": ("token", {"clip_high": 0.28}),
    "dapo_tis": ("token", {"tis": "token"}),
    "dapo_delta": ("token", {"dual_clip": 1.5}),
    "dr_grpo": ("constant", {}),
    "gspo": ("response", {"surrogate": "gspo", "clip_low": 0.02, "clip_high": 0.03}),
    # TRL's bound of the weight is ours plus 1.
    "cispo": ("token", {"surrogate": "cispo", "clip_high": 0.4}),
}


def packed(values):
    """[8 responses, 9] -> [4 rows, 18]: two responses to a row."""
    return np.asarray(values, np.float32).reshape(4, 18)


def loss_and_slope(reduction, advantages, old, **settings):
    lengths = INPUT["lengths"].reshape(2, 4)
    present = np.ones((2, 4), bool)
    weights = token_weights(
        reduction, lengths, present, np.zeros(4, int), max_length=MAX_LENGTH
    )
    wide = np.ones((8, 9))
    rest = {
        "old_log_probs": old,
        "behavior_log_probs": packed(INPUT["sampler"]),
        "ref_log_probs": packed(INPUT["ref"]),
        "entropies": None,
        "advantages": packed(np.asarray(advantages).reshape(8, 1) * wide),
        "weights": packed(weights.reshape(8, 1) * wide),
        "response_id": np.tile(np.repeat([0, 1], 9), (4, 1)),
        "loss_mask": (np.arange(9) < INPUT["lengths"][:, None]).reshape(4, 18),
    }

    def loss(log_probs):
        return policy_loss(TargetTokens(log_probs, **rest), **settings)[0]

    value, slope = jax.value_and_grad(loss)(packed(INPUT["log_probs"]))
    return value, np.asarray(slope).reshape(8, 9)


@pytest.mark.parametrize("name", SAME)
def test_the_losses_of_trl(name):
    reduction, settings = SAME[name]
    rewards = INPUT["rewards"].astype(np.float32)
    # The goldens divide by the standard deviation alone.
    advantages = credit.grpo(rewards, LAYOUT, np.ones((2, 4), bool), epsilon=1e-12)
    old = packed(INPUT["old"])
    loss, slope = loss_and_slope(reduction, advantages, old, **settings)
    np.testing.assert_allclose(loss, GOLDENS[f"{name}/loss"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slope, GOLDENS[f"{name}/slope"], rtol=1e-6, atol=1e-6)
    others = [GOLDENS[f"{other}/slope"] for other in SAME if other != name]
    assert min(np.abs(slope - other).max() for other in others) > 1e-3


def test_rloo_of_trl():
    """TRL's loss is of whole responses; on its own policy the gradients are equal."""
    rewards, present = INPUT["rewards"].astype(np.float32), np.ones((2, 4), bool)
    advantages = credit.group_advantages(
        rewards,
        credit.sibling_groups(LAYOUT),
        present,
        baseline="leave_one_out",
        scale="none",
    )
    _, slope = loss_and_slope("constant", advantages, None, surrogate="reinforce")
    expected = GOLDENS["rloo/slope"]
    np.testing.assert_allclose(slope * MAX_LENGTH, expected, rtol=1e-6, atol=1e-6)
