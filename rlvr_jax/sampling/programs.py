"""The compiled programs of a sampler."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rlvr_jax import models, sharding
from rlvr_jax.sampling import caches, choice, steps

# What stands for an argument that is not an array.
STATIC = None


class Places:
    """Where the arrays of sampling lie; without a mesh all of them on one device.

    Attributes:
        whole: on every device.
        contexts: spread over `data` and `fsdp` by their first axis.
        context_cache, branch_cache: those too, and heads over `tensor` where it
            divides them.
        settings, progress: of `steps.Settings` and `steps.Progress`.

    Args:
        mesh: of this process's devices.
        num_kv_heads: of the model.
    """

    def __init__(self, mesh: Mesh | None, num_kv_heads: int) -> None:
        def place(*axes: Any) -> jax.sharding.Sharding:
            if mesh is None:
                return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
            return NamedSharding(mesh, PartitionSpec(*axes))

        split = mesh is not None and num_kv_heads % mesh.shape["tensor"] == 0
        heads = "tensor" if split else None
        self.whole = place()
        self.contexts = place(sharding.ROWS)
        self.context_cache = place(sharding.ROWS, heads)
        self.branch_cache = place(sharding.ROWS, None, heads)
        self.settings = steps.Settings(
            limits=self.contexts,
            stop_ids=self.whole,
            temperature=self.whole,
            top_p=self.whole,
            top_k=self.whole,
        )
        self.progress = steps.Progress(
            step=self.whole,
            tokens=self.contexts,
            log_probs=self.contexts,
            entropies=self.contexts,
            lengths=self.contexts,
            stopped=self.contexts,
        )


class Programs:
    """Jitted functions of one model; see the functions they are made of.

    Every argument and every result has its place. An array that JAX holds to be free to
    move would count as another type of argument, and compile everything again.

    Args:
        model: the decoder; its `dtype` is the type of computation and caches.
        mesh: of the training; sampling happens on this process's part of it, without
            one on the first device.
    """

    def __init__(self, model: models.Decoder, *, mesh: Mesh | None = None) -> None:
        self._mesh = sharding.sampling_mesh(mesh)
        config, dtype = model.config, model.dtype
        at = Places(self._mesh, config.num_kv_heads)
        contexts, whole = at.contexts, at.whole

        def grow(cache: caches.Cache, progress: steps.Progress, length: int) -> Any:
            return caches.grow(cache, length), steps.extend_progress(progress, length)

        self.unstack, params = _unstacking(model, mesh, self._mesh, whole)
        self.empty_context = self._jit(
            lambda *sizes: caches.empty_context(config, *sizes, dtype),
            (STATIC, STATIC),
            at.context_cache,
        )
        self.empty_branches = self._jit(
            lambda *sizes: caches.empty_branches(config, *sizes, dtype),
            (STATIC, STATIC, STATIC),
            at.branch_cache,
        )
        self.prefill = self._jit(
            functools.partial(steps.prefill, model),
            (params, at.context_cache, contexts, contexts, contexts, contexts),
            (at.context_cache, contexts, contexts),
            donate_argnums=1,
        )
        self.uniforms = self._jit(
            choice.uniforms, (whole, contexts, STATIC, STATIC), contexts
        )
        self.begin = self._jit(
            functools.partial(steps.begin, model),
            (params, contexts, contexts, at.settings),
            at.progress,
        )
        self.decode = self._jit(
            functools.partial(steps.decode, model),
            (
                params,
                at.context_cache,
                contexts,
                at.branch_cache,
                at.progress,
                contexts,
                at.settings,
            ),
            (at.branch_cache, at.progress, whole),
            donate_argnums=(3, 4),
        )
        self.join = self._jit(
            caches.join,
            (
                at.context_cache,
                at.branch_cache,
                contexts,
                contexts,
                contexts,
                STATIC,
            ),
            at.context_cache,
        )
        self.grow = self._jit(
            grow,
            (at.branch_cache, at.progress, STATIC),
            (at.branch_cache, at.progress),
        )

    def _jit(
        self,
        function: Callable[..., Any],
        places: Sequence[Any],
        results: Any,
        **options: Any,
    ) -> Callable[..., Any]:
        """`function` compiled, with arrays placed on the way in and out."""
        static = [i for i, place in enumerate(places) if place is STATIC]
        compiled = jax.jit(
            function, out_shardings=results, static_argnums=static, **options
        )

        def call(*arguments: Any) -> Any:
            placed = [
                argument if place is STATIC else jax.device_put(argument, place)
                for argument, place in zip(arguments, places, strict=True)
            ]
            with sharding.use(self._mesh):
                return compiled(*placed)

        return call


def _unstacking(
    model: models.Decoder,
    mesh: Mesh | None,
    local_mesh: Mesh | None,
    whole: jax.sharding.Sharding,
) -> tuple[Callable[..., Any], Any]:
    """(the program that brings weights of the training here, where it puts each).

    Weights of a mesh of several processes are first gathered so that each process has
    all of them: the one collective of sampling.
    """

    def unstack(params: Any) -> Any:
        return models.unstack(model, params, model.dtype)

    if mesh is None:
        compiled = jax.jit(unstack, out_shardings=whole)
        return lambda params: compiled(jax.device_put(params, whole)), whole
    everywhere = _unstacked_shardings(model, sharding.handout_mesh(mesh))
    if local_mesh is None:
        places: Any = jax.tree.map(lambda _: whole, everywhere)
    else:
        places = _unstacked_shardings(model, local_mesh)
    # The output keeps the order of the devices, but not the mesh: no constraint here.
    compiled = jax.jit(unstack, out_shardings=everywhere)

    def gather(params: Any) -> Any:
        return jax.tree.map(sharding.to_local, compiled(params), places)

    return gather, places


def _unstacked_shardings(model: models.Decoder, mesh: Mesh) -> Any:
    """A sharding for each array of `models.unstack`."""
    config = model.config
    stacked = sharding.parameter_shardings(
        mesh,
        models.logical_axes(config),
        sharding.SAMPLING_RULES,
        num_kv_heads=config.num_kv_heads,
    )
    layer = {
        name: NamedSharding(mesh, PartitionSpec(*place.spec[1:]))
        for name, place in stacked["layers"].items()
    }
    return {**stacked, "layers": [layer] * config.num_layers}
