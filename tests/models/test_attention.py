"""Packed attention against a dense mask, on random forests of intervals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.models.attention import MAX_BLOCKS, attention
from tests.models.tiny import naive_attention, random_forest

packed = jax.jit(attention, static_argnames=("block",))


def inputs(rng, rows, length, heads=4, kv_heads=2, size=8):
    q = rng.normal(size=(rows, length, heads, size)).astype(np.float32)
    k, v = rng.normal(size=(2, rows, length, kv_heads, size)).astype(np.float32)
    last = np.stack([random_forest(rng, length) for _ in range(rows)])
    return q, k, v, last


def test_random_forest_is_a_forest_of_intervals():
    last = random_forest(np.random.default_rng(0), 40)
    assert (last >= np.arange(40)).all()
    for i, end in enumerate(last):
        assert (last[i : end + 1] <= end).all()
    assert len(set(last)) > 3


# Blocks of 8: none full, exactly two, three and a rest.
@pytest.mark.parametrize(("length", "kv_heads"), [(1, 2), (7, 4), (16, 2), (29, 1)])
def test_values_and_gradients_equal_the_dense_mask(length, kv_heads):
    rng = np.random.default_rng(length)
    q, k, v, last = inputs(rng, 3, length, kv_heads=kv_heads)
    probe = rng.normal(size=q.shape).astype(np.float32)

    def loss(function):
        def of(q, k, v):
            out = function(q, k, v, last)
            return jnp.sum(out * probe), out

        run = jax.value_and_grad(of, argnums=(0, 1, 2), has_aux=True)
        return jax.jit(run)(q, k, v)

    (_, out), gradients = loss(lambda *a: attention(*a, block=8))
    (_, expected), expected_gradients = loss(naive_attention)
    np.testing.assert_allclose(out, expected, atol=2e-5)
    for name, a, b in zip("qkv", gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-5, err_msg=name)


def test_padding_reads_itself_alone_and_is_read_by_nobody():
    rng = np.random.default_rng(1)
    q, k, v, last = inputs(rng, 1, 10)
    last = np.minimum(last, 6)
    last[:, 7:] = [7, 8, 9]
    out = packed(q, k, v, last)
    np.testing.assert_allclose(out[0, 7:], v[0, 7:].repeat(2, axis=1), atol=1e-6)
    junk = [np.concatenate([x[:, :7], 1e30 + x[:, 7:]], axis=1) for x in (q, k, v)]
    np.testing.assert_array_equal(packed(*junk, last)[:, :7], out[:, :7])


def test_large_scores_stay_finite():
    rng = np.random.default_rng(2)
    q, k, v, last = inputs(rng, 2, 9)
    out = packed(q * 1e4, k * 1e4, v, last)
    assert np.isfinite(out).all()


def test_scores_are_float32_for_bfloat16_inputs():
    rng = np.random.default_rng(3)
    q, k, v, last = inputs(rng, 1, 33)
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in (q, k, v))
    out = packed(q, k, v, last, block=8)
    assert out.dtype == jnp.bfloat16
    exact = naive_attention(*(x.astype(jnp.float32) for x in (q, k, v)), last)
    # One rounding of the weights and one of the result: no more than 3 bits of 8.
    np.testing.assert_allclose(out.astype(np.float32), exact, atol=0.02)


def test_nothing_of_size_length_squared_is_saved():
    rng = np.random.default_rng(4)
    length = 512
    q, k, v, last = inputs(rng, 1, length)

    def run(q, k, v):
        return attention(q, k, v, last, block=64)

    # The saved values of the whole: a closure's arrays, found without computing them.
    saved = jax.eval_shape(lambda *a: jax.vjp(run, *a)[1], q, k, v)
    sizes = [x.size for x in jax.tree.leaves(saved)]
    # The weights of 4 heads below the diagonal alone would be 2 L^2 numbers.
    assert 0 < sum(sizes) < length * length


def test_few_blocks_whatever_the_length():
    q = jnp.zeros((1, 100, 2, 4))
    last = jnp.full((1, 100), 99)
    text = str(jax.make_jaxpr(lambda *a: attention(*a, block=1))(q, q, q, last))
    assert text.count("= exp ") == MAX_BLOCKS


def test_unknown_backend():
    q = jnp.zeros((1, 2, 2, 4))
    with pytest.raises(ValueError, match=r"backend: wanted one of .*got 'magic'"):
        attention(q, q, q, jnp.ones((1, 2), jnp.int32), backend="magic")
