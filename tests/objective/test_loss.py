"""The loss of a batch against loops over its tokens, and what masked tokens may do."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.objective import TargetTokens, policy_loss
from tests.objective import oracle

SHAPE = (3, 20)
FIELDS = [field.name for field in dataclasses.fields(TargetTokens)]
FULL = {"kl_coefficient": 0.2, "entropy_coefficient": 0.1, "tis": "response"}
SETTINGS = [
    {"surrogate": "reinforce"},
    {"surrogate": "reinforce", "kl_coefficient": 0.3, "tis": "token"},
    {},
    {"clip_low": 0.1, "clip_high": 0.28, "entropy_coefficient": 0.2},
    {"dual_clip": 1.5, "kl_coefficient": 0.05},
    {"kl": "k2", "kl_coefficient": 0.4, "tis": "response", "tis_cap": 1.1},
    {"surrogate": "gspo", "clip_low": 0.02, "clip_high": 0.03},
    {"surrogate": "gspo", "clip_low": 0.02, "clip_high": 0.03, "dual_clip": 1.01}
    | FULL,
    {"surrogate": "cispo", "clip_high": 0.3},
    {"surrogate": "cispo", "clip_high": 0.1} | FULL,
]


def batch(seed=0, *, masked=True):
    """Ragged responses whose tokens stand anywhere in their row."""
    rng = np.random.default_rng(seed)

    def near(log_probs):
        return log_probs + rng.normal(scale=0.4, size=SHAPE).astype(np.float32)

    log_probs = -rng.exponential(size=SHAPE).astype(np.float32)
    mask = rng.random(SHAPE) < 0.6 if masked else np.ones(SHAPE, bool)
    ids = rng.integers(0, 5, SHAPE).astype(np.int32)

    def of_responses(draw):
        values = draw(size=(SHAPE[0], 5)).astype(np.float32)
        return np.take_along_axis(values, ids, axis=1)

    return {
        "log_probs": log_probs,
        "old_log_probs": near(log_probs),
        "behavior_log_probs": near(log_probs),
        "ref_log_probs": near(log_probs),
        "entropies": rng.exponential(size=SHAPE).astype(np.float32),
        "advantages": of_responses(rng.normal),
        "weights": 0.1 + of_responses(rng.random),
        "response_id": ids,
        "loss_mask": mask,
    }


@functools.partial(jax.jit, static_argnames="settings")
def _loss_and_slope(differentiated, rest, settings):
    def loss(differentiated):
        return policy_loss(TargetTokens(**differentiated, **rest), **dict(settings))

    (value, sums), slopes = jax.value_and_grad(loss, has_aux=True)(differentiated)
    return value, sums, slopes


def loss_and_slope(fields, **settings):
    """(loss, sums, slope by log_probs, slope by entropies)."""
    differentiated = {name: fields[name] for name in ("log_probs", "entropies")}
    rest = {name: value for name, value in fields.items() if name not in differentiated}
    value, sums, slopes = _loss_and_slope(
        differentiated, rest, tuple(sorted(settings.items()))
    )
    return value, sums, slopes["log_probs"], slopes["entropies"]


def close(actual, expected, tolerance=2e-6):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_loop_over_responses(seed, settings):
    fields = batch(seed)
    expected, expected_sums = oracle.policy_loss(fields, **settings)
    loss, sums, *_ = loss_and_slope(fields, **settings)
    close(loss, expected, 1e-5)
    assert set(sums) == set(expected_sums)
    for name, value in expected_sums.items():
        close(sums[name], value, 1e-5)
    if settings.get("surrogate") != "reinforce":
        assert 0 < sums["clip_high"] < sums["tokens"]
    if settings.get("tis", "none") != "none":
        assert 0 < sums["tis_capped"] < sums["tokens"]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_slope_is_that_of_the_value(settings):
    """Central differences in float64 of the loops; for GSPO of whole responses."""
    fields = batch(7)
    *_, slope, by_entropy = loss_and_slope(fields, **settings)
    wide = {name: np.asarray(value) for name, value in fields.items()}
    wide["log_probs"] = wide["log_probs"].astype(np.float64)
    for place in map(tuple, np.argwhere(fields["loss_mask"])[:12]):
        if settings.get("surrogate") == "cispo":
            break  # its weight is held fixed: see its own test
        ends = []
        for change in (1e-5, -1e-5):
            moved = wide["log_probs"].copy()
            moved[place] += change
            changed = wide | {"log_probs": moved}
            ends.append(oracle.policy_loss(changed, **settings)[0])
        expected = (ends[0] - ends[1]) / 2e-5
        close(slope[place], expected, 1e-3)
    bonus = settings.get("entropy_coefficient", 0.0) * fields["weights"]
    close(by_entropy, np.where(fields["loss_mask"], -bonus, 0.0))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_junk_in_masked_places_changes_nothing(junk, settings):
    fields = batch(1)
    clean = loss_and_slope(fields, **settings)
    hidden = ~fields["loss_mask"]
    assert hidden.any()
    dirty = {name: value.copy() for name, value in fields.items()}
    for name in set(FIELDS) - {"loss_mask", "response_id"}:
        dirty[name][hidden] = junk
    dirty["response_id"][hidden] = 10**6
    got = loss_and_slope(dirty, **settings)
    jax.tree.map(np.testing.assert_array_equal, got, clean)
    assert (np.asarray(got[2])[hidden] == 0).all()


@pytest.mark.parametrize("surrogate", ["reinforce", "clip", "gspo", "cispo"])
@pytest.mark.parametrize("old", ["live", "sampler"])
def test_all_masked_is_zero(old, surrogate):
    fields = {name: np.full(SHAPE, np.nan, np.float32) for name in FIELDS}
    fields["loss_mask"] = np.zeros(SHAPE, bool)
    fields["response_id"] = np.full(SHAPE, -7, np.int32)
    if old == "live":
        fields["old_log_probs"] = None
    loss, sums, *slopes = loss_and_slope(fields, surrogate=surrogate, **FULL)
    assert loss == 0 and not np.asarray(slopes).any()
    assert all(value == 0 for value in sums.values())


@pytest.mark.parametrize(
    "settings",
    [{}, {"dual_clip": 3.0}, {"surrogate": "gspo"}, {"surrogate": "cispo"}],
    ids=str,
)
def test_a_live_old_policy_gives_the_gradient_of_reinforce(settings):
    fields = batch(3) | {"old_log_probs": None}
    _, sums, slope, _ = loss_and_slope(fields, **settings)
    _, plain, expected, _ = loss_and_slope(fields, surrogate="reinforce")
    close(slope, expected)
    assert np.asarray(slope).any()
    for group in (sums, plain):
        assert group["clip_low"] == group["clip_high"] == 0


@pytest.mark.parametrize("surrogate", ["clip", "gspo"])
def test_a_live_old_policy_has_the_loss_of_its_advantages(surrogate):
    fields = batch(3) | {"old_log_probs": None}
    loss, *_ = loss_and_slope(fields, surrogate=surrogate)
    signal = np.where(fields["loss_mask"], fields["advantages"] * fields["weights"], 0)
    close(loss, -signal.sum())


@pytest.mark.parametrize("surrogate", ["clip", "gspo", "cispo"])
def test_sums_add_up_over_any_split(surrogate):
    fields = batch(4)
    settings = FULL | {"surrogate": surrogate, "tis": "response"}
    whole = loss_and_slope(fields, **settings)[:2]
    parts = [
        loss_and_slope(
            {name: value[i : i + 1] for name, value in fields.items()}, **settings
        )[:2]
        for i in range(SHAPE[0])
    ]
    total = jax.tree.map(lambda *values: sum(values), *parts)
    jax.tree.map(functools.partial(close, tolerance=1e-5), total, whole)


def test_what_is_not_there_is_not_reported():
    fields = batch(5)
    full = loss_and_slope(fields, tis="token")
    bare = fields | {"ref_log_probs": None, "entropies": None}
    _, sums = policy_loss(TargetTokens(**bare))
    assert not {"kl", "kl_k1", "entropy", "tis_weight", "tis_capped"} & set(sums)
    assert full[1]["kl"] > 0
    assert set(full[1]) - set(sums) == {
        *("kl", "kl_k1", "entropy"),
        *("tis_weight", "tis_capped"),
    }


def test_a_zero_advantage_is_still_pulled_to_the_reference():
    fields = batch(6, masked=False)
    fields["advantages"] = np.zeros(SHAPE, np.float32)
    fields["ref_log_probs"] = fields["log_probs"] - 0.5
    for kl, slope_per_token in [
        # d/dlogp of exp(ref - logp) - (ref - logp) - 1, and of (logp - ref)^2 / 2
        ("k3", 1.0 - np.exp(-0.5)),
        ("k2", 0.5),
    ]:
        *_, slope, _ = loss_and_slope(fields, kl=kl, kl_coefficient=2.0)
        close(slope, 2.0 * fields["weights"] * slope_per_token, 1e-5)


def test_trust_weighs_the_surrogate_alone():
    fields = batch(8)
    fields["advantages"] = np.zeros(SHAPE, np.float32)
    settings = {"kl_coefficient": 0.2, "entropy_coefficient": 0.1}
    plain = loss_and_slope(fields, **settings)
    weighed = loss_and_slope(fields, **settings, tis="token")
    for index in (0, 2, 3):
        np.testing.assert_array_equal(weighed[index], plain[index])


@pytest.mark.parametrize("surrogate", ["reinforce", "clip", "gspo", "cispo"])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_wild_ratios_stay_finite(advantage, surrogate):
    ones = np.ones((1, 2), np.float32)
    far = np.array([[-500.0, 0.0]], np.float32)
    fields = dict.fromkeys(FIELDS, ones) | {
        "log_probs": np.array([[0.0, -500.0]], np.float32),
        "old_log_probs": far,
        "ref_log_probs": far,
        "behavior_log_probs": far[:, ::-1],
        "advantages": advantage * ones,
        "response_id": np.array([[0, 1]]),
        "loss_mask": ones > 0,
    }
    for tis in ("none", "token", "response"):
        settings = FULL | {"surrogate": surrogate, "tis": tis}
        result = loss_and_slope(fields, **settings)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({}, {"surrogate": "ppo"}, r"surrogate must be one of .*gspo.*got 'ppo'"),
        ({}, {"clip_low": 1.5}, r"clip_low must be in \[0, 1\]; got 1\.5"),
        ({}, {"clip_high": -0.1}, r"clip_high must be 0 or more; got -0\.1"),
        ({}, {"dual_clip": 1.0}, r"dual_clip must be None or above 1; got 1\.0"),
        ({}, {"kl": "k1"}, r"kl must be one of .*got 'k1', which has a sign"),
        ({}, {"kl": "k4"}, r"kl must be one of \('k2', 'k3'\); got 'k4'"),
        ({}, {"kl_coefficient": -1.0}, r"kl_coefficient must be 0 or more; got -1"),
        ({}, {"entropy_coefficient": float("nan")}, r"entropy_coefficient .*got nan"),
        ({}, {"tis": "sequence"}, r"tis must be one of .*response.*got 'sequence'"),
        ({}, {"tis": "token", "tis_cap": 0.0}, r"tis_cap must be above 0; got 0\.0"),
        (
            {"ref_log_probs": None},
            {"kl_coefficient": 0.1},
            r"kl_coefficient 0\.1 needs ref_log_probs; got None",
        ),
        (
            {"entropies": None},
            {"entropy_coefficient": 0.1},
            r"entropy_coefficient 0\.1 needs entropies; got None",
        ),
        (
            {"weights": np.ones(20, np.float32)},
            {},
            r"weights must have the shape of loss_mask \(3, 20\); got \(20,\)",
        ),
        ({"loss_mask": np.ones(SHAPE)}, {}, r"loss_mask must be bool.*float64"),
        (
            {"response_id": np.ones(SHAPE, np.float32)},
            {},
            r"response_id must hold integers; got dtype float32",
        ),
    ],
)
def test_errors(changes, settings, message):
    tokens = TargetTokens(**(batch() | changes))
    with pytest.raises(ValueError, match=message):
        policy_loss(tokens, **settings)
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda: policy_loss(tokens, **settings)[0])()


def test_shapes_are_checked_on_tracers():
    fields = batch()
    with pytest.raises(ValueError, match=r"log_probs must have the shape .*got \(1,"):
        jax.jit(lambda x: policy_loss(TargetTokens(**(fields | {"log_probs": x})))[0])(
            jnp.ones((1, 20))
        )
