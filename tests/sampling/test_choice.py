"""From a uniform number to a token, against the same in NumPy float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.sampling import choice

# Shares of the cumulative sum within which float32 may decide otherwise.
ROUNDING = 2e-6
LAST_NUMBER = np.float32(1) - np.float32(2**-24)  # the largest float32 below 1

invert = jax.jit(choice._invert)
choose = jax.jit(choice.choose)


def draw(logits, numbers, temperature=1.0, top_p=1.0, top_k=0):
    """(tokens, log_probs, entropy) as NumPy arrays, settings traced."""
    out = choose(
        jnp.asarray(logits, jnp.float32),
        jnp.asarray(numbers, jnp.float32),
        temperature=jnp.float32(temperature),
        top_p=jnp.float32(top_p),
        top_k=jnp.int32(top_k),
    )
    return tuple(np.asarray(array) for array in out)


def sparse_masses(rng, size):
    """Positive masses, most of them replaced by 0, whole blocks among them."""
    mass = rng.exponential(size=size).astype(np.float32)
    mass[rng.random(size) < 0.7] = 0
    mass[128 : 128 + rng.integers(0, 128)] = 0
    return mass


def test_no_token_without_mass_is_drawn_at_the_steps_of_the_distribution():
    # Numbers around every step: there the two levels of the search round apart.
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(8):
        mass = sparse_masses(rng, 500)
        shares = np.cumsum(mass.astype(np.float64)) / mass.astype(np.float64).sum()
        ticks = np.round(shares * 2**23)[:, None] + np.arange(-4, 5)
        numbers = np.clip(ticks, 0, 2**23 - 1).ravel() / 2**23
        rows = np.broadcast_to(mass, (len(numbers), len(mass)))
        tokens = np.asarray(invert(rows, numbers.astype(np.float32)))
        drawn.append(mass[tokens])
    assert (np.concatenate(drawn) > 0).all()


@pytest.mark.parametrize("size", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("number", [0.0, LAST_NUMBER])
def test_the_ends_of_the_interval_draw_the_outermost_masses(size, number):
    rows = []
    for first, last in ((0, size - 1), (size // 3, size // 2), (size - 1, size - 1)):
        mass = np.zeros(size, np.float32)
        mass[[first, last]] = 1.0
        rows.append(mass)
    mass = np.stack(rows)
    tokens = np.asarray(invert(mass, np.full(3, number, np.float32)))
    wanted = [np.flatnonzero(row)[0 if number == 0 else -1] for row in mass]
    assert tokens.tolist() == wanted


def test_zeros_on_both_sides_of_a_block_border():
    mass = np.zeros(384, np.float32)
    mass[[120, 140, 250, 260]] = 1.0
    numbers = np.array([0, 0.24, 0.25, 0.49, 0.5, 0.74, 0.75, 0.99], np.float32)
    tokens = np.asarray(invert(np.broadcast_to(mass, (8, 384)), numbers))
    assert tokens.tolist() == [120, 120, 140, 140, 250, 250, 260, 260]


def test_draws_equal_a_float64_inverse_distribution_function():
    rng = np.random.default_rng(1)
    logits = rng.normal(scale=3, size=(4000, 261)).astype(np.float32)
    numbers = rng.random(4000, np.float32)
    tokens, log_probs, entropy = draw(logits, numbers, temperature=0.7)
    scores = logits.astype(np.float64) / np.float32(0.7)
    scores -= scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=-1, keepdims=True)
    ends = np.cumsum(shares, axis=-1)
    expected = (ends <= numbers[:, None]).sum(axis=-1)
    near = np.abs(ends - numbers[:, None]).min(axis=-1) < ROUNDING
    assert near.mean() < 0.05
    np.testing.assert_array_equal(tokens[~near], expected[~near])
    chosen = np.log(shares[np.arange(4000), tokens])
    np.testing.assert_allclose(log_probs, chosen, atol=2e-5)
    expected_entropy = -(shares * np.log(shares)).sum(axis=-1)
    np.testing.assert_allclose(entropy, expected_entropy, atol=2e-5)


@pytest.mark.parametrize(("top_p", "top_k"), [(0.6, 0), (1.0, 3), (0.8, 4), (1e-6, 0)])
def test_cuts_keep_what_numpy_keeps(top_p, top_k):
    rng = np.random.default_rng(2)
    logits = rng.normal(scale=2, size=(1, 140)).astype(np.float32)
    numbers = (np.arange(6000) + 0.5) / 6000
    tokens, log_probs, _ = draw(
        np.broadcast_to(logits, (6000, 140)), numbers, top_p=top_p, top_k=top_k
    )
    shares = np.exp(logits[0].astype(np.float64))
    shares /= shares.sum()
    order = np.argsort(-shares)
    before = np.cumsum(shares[order]) - shares[order]
    count = max(1, int((before < top_p).sum()))
    kept = order[: min(count, top_k) if top_k else count]
    assert set(tokens.tolist()) == set(kept.tolist())
    # What is kept is drawn in proportion; the log-prob is of the full softmax.
    counts = np.bincount(tokens, minlength=140) / 6000
    renormalised = shares[kept] / shares[kept].sum()
    np.testing.assert_allclose(counts[kept], renormalised, atol=5e-4)
    np.testing.assert_allclose(log_probs, np.log(shares[tokens]), atol=2e-5)


def test_greedy_takes_the_largest_and_reports_temperature_one():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(50, 200)).astype(np.float32)
    tokens, log_probs, _ = draw(logits, rng.random(50), temperature=0.0)
    np.testing.assert_array_equal(tokens, logits.argmax(axis=-1))
    expected = jax.nn.log_softmax(logits)[np.arange(50), tokens]
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)


def test_log_probs_are_never_above_zero():
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(300, 130)).astype(np.float32)
    logits *= np.logspace(-3, 3, 300, dtype=np.float32)[:, None]
    for temperature in (0.0, 0.3, 1.0, 4.0):
        _, log_probs, entropy = draw(logits, rng.random(300), temperature=temperature)
        assert (log_probs <= 0).all()
        assert (entropy >= -1e-6).all()


# Neighbouring ids: what a branch adds must not lead into the next context.
def numbers_of(seed=0, ids=(3, 4), branches=2, steps=3):
    context_ids = np.asarray(ids, np.uint32)
    key = jax.random.key(seed)
    return np.asarray(choice.uniforms(key, context_ids, branches, steps))


def test_numbers_depend_on_key_context_branch_and_step():
    numbers = numbers_of()
    assert ((numbers >= 0) & (numbers < 1)).all()
    both = np.concatenate([numbers.ravel(), numbers_of(seed=1).ravel()])
    assert len(set(both.tolist())) == 2 * 2 * 2 * 3


def test_numbers_depend_on_nothing_else():
    numbers = numbers_of()
    np.testing.assert_array_equal(numbers_of(branches=5, steps=7)[:, :2, :3], numbers)
    np.testing.assert_array_equal(numbers_of(ids=(1, 4, 2))[1], numbers[1])
    np.testing.assert_array_equal(numbers_of(ids=(4,), branches=1)[0, 0], numbers[1, 0])
