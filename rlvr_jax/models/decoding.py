"""The decoder layer after layer, with the caller's own attention: for sampling."""

from collections.abc import Callable
from typing import Any

import jax

from rlvr_jax.models.decoder import Block, Decoder, embed_tokens, rms_norm
from rlvr_jax.models.parameters import block_parameters

LayerAttend = Callable[[int, jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any]]


def unstack(model: Decoder, params: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Parameters for decoding: matrices cast to `dtype`, layers as a list.

    Slicing stacked weights inside a decoding loop makes XLA copy them at each token, so
    a rollout does it once. A pure function, to be jitted by the caller.

    Args:
        model: the decoder.
        params: as `Decoder` holds them.
        dtype: type of the matrices; vectors (norms, biases) keep their own, as the
            block reads them in float32.

    Returns:
        `{"embed", "layers": [dict of one layer, ...], "norm", "head"}` (no "head" when
        tied).
    """
    matrices = block_parameters(model.config)

    def cast(x: jax.Array, rank: int) -> jax.Array:
        return x.astype(dtype) if rank >= 2 else x

    layers = [
        {k: cast(x[i], len(matrices[k].shape)) for k, x in params["layers"].items()}
        for i in range(model.config.num_layers)
    ]
    outer = {k: cast(x, x.ndim) for k, x in params.items() if k != "layers"}
    return {**outer, "layers": layers}


def forward_layers(
    model: Decoder,
    layered: dict[str, Any],
    tokens: jax.Array,
    positions: jax.Array,
    attend: LayerAttend,
) -> tuple[jax.Array, list[Any]]:
    """Hidden states with the caller's own attention, one layer after the other.

    Args:
        model: the decoder.
        layered: from `unstack`.
        tokens: int32 [...] ids.
        positions: int32 [...], depth of each token along its own path.
        attend: `(layer, q [..., H, d], k [..., Hkv, d], v [..., Hkv, d]) ->
            (out [..., H, d], aux)`, `layer` a Python int.

    Returns:
        Hidden states [..., D] after the final norm, and the `aux` of each layer.
    """
    block = Block(model.config, model.dtype)
    x = embed_tokens(layered["embed"], tokens, model.dtype)
    auxiliaries = []
    for index, weights in enumerate(layered["layers"]):

        def attend_here(q, k, v, index=index):
            return attend(index, q, k, v)

        x, aux = block.apply({"params": weights}, x, positions, attend_here)
        auxiliaries.append(aux)
    return rms_norm(x, layered["norm"], model.config.norm_epsilon), auxiliaries
