"""The compiled programs of a sampler."""

import functools
from typing import Any

import jax

from rlvr_jax import models
from rlvr_jax.sampling import caches, choice, steps


class Programs:
    """Jitted functions of one model; see the functions they are made of.

    Args:
        model: the decoder; its `dtype` is the type of computation and caches.
    """

    def __init__(self, model: models.Decoder) -> None:
        self._model = model
        config, dtype = model.config, model.dtype

        def grow(cache: caches.Cache, progress: steps.Progress, length: int) -> Any:
            return caches.grow(cache, length), steps.extend_progress(progress, length)

        self.unstack = jax.jit(lambda params: models.unstack(model, params, dtype))
        self.empty_context = jax.jit(
            lambda *sizes: caches.empty_context(config, *sizes, dtype),
            static_argnums=(0, 1),
        )
        self.empty_branches = jax.jit(
            lambda *sizes: caches.empty_branches(config, *sizes, dtype),
            static_argnums=(0, 1, 2),
        )
        self.prefill = jax.jit(
            functools.partial(steps.prefill, model), donate_argnums=1
        )
        self.uniforms = jax.jit(choice.uniforms, static_argnums=(2, 3))
        self.begin = jax.jit(functools.partial(steps.begin, model))
        self.decode = jax.jit(
            functools.partial(steps.decode, model), donate_argnums=(3, 4)
        )
        self.join = jax.jit(caches.join, static_argnames="length")
        self.grow = jax.jit(grow, static_argnums=2)
