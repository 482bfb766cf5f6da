"""`project` is a matrix product, in values, gradients and types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.models.projection import project


# Wider and narrower results: the gradient of the weight is found in two ways.
@pytest.mark.parametrize(("inner", "outer"), [(3, 7), (7, 3), (4, 4)])
def test_equals_matmul(inner, outer):
    rng = np.random.default_rng(inner)
    x = rng.normal(size=(2, 5, inner)).astype(np.float32)
    weight = rng.normal(size=(inner, outer)).astype(np.float32)
    probe = rng.normal(size=(2, 5, outer)).astype(np.float32)

    def gradients(product):
        def loss(x, weight):
            return (product(x, weight) * probe).sum()

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(x, weight)

    for mine, expected in zip(
        jax.tree.leaves(gradients(project)),
        jax.tree.leaves(gradients(jnp.matmul)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_gradients_keep_the_types():
    x, weight = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 4), jnp.bfloat16)
    gradients = jax.grad(lambda *a: project(*a).sum(), argnums=(0, 1))(x, weight)
    assert [g.dtype for g in gradients] == [jnp.bfloat16] * 2
