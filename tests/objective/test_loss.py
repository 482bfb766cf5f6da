"""The loss of a batch against loops over its tokens, and what masked tokens may do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.objective import policy_loss
from tests.objective import oracle

SHAPE = (3, 20)
FIELDS = ("old_log_probs", "behavior_log_probs", "ref_log_probs", "advantages")


def batch(seed=0, *, masked=True):
    rng = np.random.default_rng(seed)

    def near(log_probs):
        return log_probs + rng.normal(scale=0.4, size=SHAPE).astype(np.float32)

    log_probs = -rng.exponential(size=SHAPE).astype(np.float32)
    mask = rng.random(SHAPE) < 0.6 if masked else np.ones(SHAPE, bool)
    inputs = {
        "old_log_probs": near(log_probs),
        "behavior_log_probs": near(log_probs),
        "ref_log_probs": near(log_probs),
        "advantages": rng.normal(size=SHAPE).astype(np.float32),
        "weights": rng.uniform(0.1, 1.0, SHAPE).astype(np.float32),
        "loss_mask": mask,
    }
    return log_probs, inputs


def loss_and_slope(log_probs, inputs, **settings):
    function = jax.value_and_grad(
        functools.partial(policy_loss, **settings), has_aux=True
    )
    (loss, sums), slope = function(jnp.asarray(log_probs), **inputs)
    return loss, sums, slope


def close(actual, expected, tolerance=2e-6):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "settings",
    [
        {"surrogate": "reinforce"},
        {"surrogate": "reinforce", "kl_coefficient": 0.3},
        {},
        {"clip_low": 0.1, "clip_high": 0.28},
        {"dual_clip": 1.5, "kl_coefficient": 0.05},
    ],
)
def test_a_loop_over_tokens(seed, settings):
    log_probs, inputs = batch(seed)
    beta = settings.get("kl_coefficient", 0.0)
    low, high = settings.get("clip_low", 0.2), settings.get("clip_high", 0.2)
    expected = {
        "policy": 0.0,
        "kl": 0.0,
        "gap": 0.0,
        "tokens": 0.0,
        "clip_low": 0.0,
        "clip_high": 0.0,
    }
    for place in np.argwhere(inputs["loss_mask"]):
        at = {name: float(inputs[name][tuple(place)]) for name in (*FIELDS, "weights")}
        live, old = float(log_probs[tuple(place)]), at["old_log_probs"]
        advantage = at["advantages"]
        if settings.get("surrogate") == "reinforce":
            loss = oracle.reinforce(live, old, advantage)
        else:
            loss = oracle.clip(
                live,
                old,
                advantage,
                clip_low=low,
                clip_high=high,
                dual_clip=settings.get("dual_clip"),
            )
        expected["policy"] += at["weights"] * loss
        divergence = oracle.k3(live, at["ref_log_probs"])
        expected["kl"] += divergence
        expected["gap"] += abs(live - at["behavior_log_probs"])
        expected["tokens"] += 1
        ratio = np.exp(live - old)
        expected["clip_low"] += ratio < 1 - low and advantage < 0
        expected["clip_high"] += ratio > 1 + high and advantage > 0
    penalty = sum(
        beta
        * float(inputs["weights"][tuple(place)])
        * oracle.k3(
            float(log_probs[tuple(place)]), float(inputs["ref_log_probs"][tuple(place)])
        )
        for place in np.argwhere(inputs["loss_mask"])
    )
    loss, sums, _ = loss_and_slope(log_probs, inputs, **settings)
    assert expected["clip_low"] > 0 and expected["clip_high"] > 0
    close(loss, expected["policy"] + penalty, 1e-5)
    assert set(sums) == set(expected)
    for name, value in expected.items():
        close(sums[name], value, 1e-5)


@pytest.mark.parametrize("settings", [{}, {"surrogate": "reinforce"}])
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_junk_in_masked_places_changes_nothing(junk, settings):
    settings = {**settings, "kl_coefficient": 0.2, "dual_clip": 3.0}
    log_probs, inputs = batch(1)
    clean = loss_and_slope(log_probs, inputs, **settings)
    hidden = ~inputs["loss_mask"]
    assert hidden.any()
    for name in (*FIELDS, "weights", "log_probs"):
        dirty = {key: value.copy() for key, value in inputs.items()}
        dirty["log_probs"] = log_probs.copy()
        dirty[name][hidden] = junk
        got = loss_and_slope(dirty.pop("log_probs"), dirty, **settings)
        jax.tree.map(np.testing.assert_array_equal, got, clean)
        assert (np.asarray(got[2])[hidden] == 0).all()


@pytest.mark.parametrize("old", ["live", "sampler"])
def test_all_masked_is_zero(old):
    log_probs, inputs = batch(2)
    inputs = {name: np.full(SHAPE, np.nan, np.float32) for name in inputs}
    inputs["loss_mask"] = np.zeros(SHAPE, bool)
    if old == "live":
        inputs["old_log_probs"] = None
    loss, sums, slope = loss_and_slope(log_probs, inputs, kl_coefficient=0.1)
    assert loss == 0 and not np.asarray(slope).any()
    assert all(value == 0 for value in sums.values())


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_a_live_old_policy_gives_the_gradient_of_reinforce(dual_clip):
    log_probs, inputs = batch(3)
    inputs |= {"old_log_probs": None}
    loss, sums, slope = loss_and_slope(log_probs, inputs, dual_clip=dual_clip)
    _, plain, expected = loss_and_slope(log_probs, inputs, surrogate="reinforce")
    close(slope, expected)
    assert np.asarray(slope).any()
    signal = np.where(inputs["loss_mask"], inputs["advantages"] * inputs["weights"], 0)
    close(loss, -signal.sum())
    for group in (sums, plain):
        assert group["clip_low"] == group["clip_high"] == 0


def test_sums_add_up_over_any_split():
    log_probs, inputs = batch(4)
    whole = loss_and_slope(log_probs, inputs, kl_coefficient=0.1)[:2]
    parts = [
        loss_and_slope(
            log_probs[i : i + 1],
            {name: value[i : i + 1] for name, value in inputs.items()},
            kl_coefficient=0.1,
        )[:2]
        for i in range(SHAPE[0])
    ]
    total = jax.tree.map(lambda *values: sum(values), *parts)
    jax.tree.map(functools.partial(close, tolerance=1e-5), total, whole)


def test_without_reference_there_is_no_kl():
    log_probs, inputs = batch(5)
    with_reference = loss_and_slope(log_probs, inputs)
    without = loss_and_slope(log_probs, inputs | {"ref_log_probs": None})
    assert "kl" not in without[1]
    assert with_reference[1]["kl"] > 0
    assert with_reference[0] == without[0]
    np.testing.assert_array_equal(with_reference[2], without[2])


def test_a_zero_advantage_is_still_pulled_to_the_reference():
    log_probs, inputs = batch(6, masked=False)
    inputs["advantages"] = np.zeros(SHAPE, np.float32)
    inputs["ref_log_probs"] = log_probs - 0.5
    _, _, slope = loss_and_slope(log_probs, inputs, kl_coefficient=2.0)
    # d/dlogp of exp(ref - logp) - (ref - logp) - 1
    close(slope, 2.0 * inputs["weights"] * (1.0 - np.exp(-0.5)), 1e-5)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_wild_ratios_stay_finite(advantage):
    ones = np.ones((1, 2), np.float32)
    _, inputs = batch()
    inputs = dict.fromkeys(inputs, ones) | {
        "old_log_probs": np.array([[-500.0, 0.0]], np.float32),
        "ref_log_probs": np.array([[-500.0, 0.0]], np.float32),
        "advantages": advantage * ones,
        "loss_mask": ones > 0,
    }
    log_probs = np.array([[0.0, -500.0]], np.float32)
    result = loss_and_slope(log_probs, inputs, kl_coefficient=0.1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result))


def test_errors():
    log_probs, inputs = batch()
    with pytest.raises(ValueError, match=r"surrogate must be one of .*got 'ppo'"):
        policy_loss(log_probs, **inputs, surrogate="ppo")
    inputs["ref_log_probs"] = None
    with pytest.raises(ValueError, match=r"kl_coefficient 0.1 needs ref_log_probs"):
        policy_loss(log_probs, **inputs, kl_coefficient=0.1)
