"""Products of activations with a weight matrix."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def project(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x @ weight, with a backward pass that transposes the smaller matrix.

    The gradient of the weight needs either x or the gradient of the result transposed.
    Left to itself XLA takes the latter, and on CPU computes whatever led to it in
    strided order. `tests/benchmarks/update.py` shows what that costs a small model.

    Args:
        x: [..., D].
        weight: [D, F] in the type of `x`.

    Returns:
        [..., F] in the type of `x`.
    """
    return jnp.matmul(x, weight)


def _forward(x, weight):
    return jnp.matmul(x, weight), (x, weight)


def _backward(residuals, grad):
    x, weight = residuals
    rows, grad_rows = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    if rows.shape[1] <= grad_rows.shape[1]:
        grad_weight = jnp.einsum("td,tf->df", rows, grad_rows)
    else:
        grad_weight = jnp.einsum("tf,td->fd", grad_rows, rows).T
    return jnp.matmul(grad, weight.T), grad_weight


project.defvjp(_forward, _backward)
