"""Products of activations with a weight matrix."""

import functools

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


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def project_adapted(
    x: jax.Array, weight: jax.Array, a: jax.Array, b: jax.Array, scale: float
) -> jax.Array:
    """x @ weight for a weight that is base + scale * a @ b, with gradients of a and b.

    The gradient of the weight [D, F] is never formed: those of its factors need the
    rows, their gradients and products of rank r alone.

    Args:
        x: [..., D].
        weight: [D, F] in the type of `x`; a constant here.
        a: float32 [D, r].
        b: float32 [r, F].
        scale: of the product.

    Returns:
        [..., F] in the type of `x`.
    """
    return jnp.matmul(x, weight)


def _forward_adapted(x, weight, a, b, scale):
    return jnp.matmul(x, weight), (x, weight, a, b)


def _backward_adapted(scale, residuals, grad):
    x, weight, a, b = residuals
    rows, grad_rows = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    sums = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    # Rows and their gradients stay in the compute type, what is added up does not.
    inner = sums("td,dr->tr", rows, a.astype(x.dtype)).astype(x.dtype)
    inner_grad = sums("tf,rf->tr", grad_rows, b.astype(x.dtype)).astype(x.dtype)
    grad_a = scale * sums("td,tr->dr", rows, inner_grad)
    grad_b = scale * sums("tr,tf->rf", inner, grad_rows)
    return jnp.matmul(grad, weight.T), None, grad_a, grad_b


project_adapted.defvjp(_forward_adapted, _backward_adapted)
