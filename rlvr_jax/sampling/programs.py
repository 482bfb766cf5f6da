"""The compiled programs of a sampler."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from rlvr_jax import models
from rlvr_jax.sampling import caches, choice, steps


class Programs:
    """Jitted functions of one model; see the functions they are made of.

    Every argument and every result lies on one sharding. An array that JAX holds to be
    free to move would count as another type of argument, and compile everything again.

    Args:
        model: the decoder; its `dtype` is the type of computation and caches.
        sharding: where sampling happens; default this process's first device.
    """

    def __init__(
        self, model: models.Decoder, *, sharding: jax.sharding.Sharding | None = None
    ) -> None:
        self._sharding = sharding or jax.sharding.SingleDeviceSharding(
            jax.local_devices()[0]
        )
        config, dtype = model.config, model.dtype

        def grow(cache: caches.Cache, progress: steps.Progress, length: int) -> Any:
            return caches.grow(cache, length), steps.extend_progress(progress, length)

        self.unstack = self._jit(lambda params: models.unstack(model, params, dtype))
        self.empty_context = self._jit(
            lambda *sizes: caches.empty_context(config, *sizes, dtype),
            static_argnums=(0, 1),
        )
        self.empty_branches = self._jit(
            lambda *sizes: caches.empty_branches(config, *sizes, dtype),
            static_argnums=(0, 1, 2),
        )
        self.prefill = self._jit(
            functools.partial(steps.prefill, model), donate_argnums=1
        )
        self.uniforms = self._jit(choice.uniforms, static_argnums=(2, 3))
        self.begin = self._jit(functools.partial(steps.begin, model))
        self.decode = self._jit(
            functools.partial(steps.decode, model), donate_argnums=(3, 4)
        )
        self.join = self._jit(caches.join, static_argnums=5)
        self.grow = self._jit(grow, static_argnums=2)

    def _jit(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """`function` compiled, with arrays placed on the way in and out."""
        compiled = jax.jit(function, out_shardings=self._sharding, **options)

        def place(leaf: Any) -> Any:
            is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
            return jax.device_put(leaf, self._sharding) if is_array else leaf

        return lambda *arguments: compiled(*jax.tree.map(place, arguments))
