"""How fast an update is, next to the same update written plainly.

    python -m tests.benchmarks.update [--rounds 15]

One micro-batch of the shipped model (4 rows of 384 tokens), forward and backward, on
this machine's devices, all variants in turns in one process; medians. `plain` leaves
both backward passes to autodiff: attention over the dense mask and matrix products.
"""

import argparse
import pathlib
import statistics
import time
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import rlvr_jax
from rlvr_jax import models
from rlvr_jax.models import decoder
from tests.models.tiny import naive_attention

SHIPPED = pathlib.Path(rlvr_jax.__file__).parent / "assets" / "tiny_base"
SHAPE = (4, 384)


def plain_attention(q, k, v, last_reader, *, backend):
    return naive_attention(q, k, v, last_reader)


SHIPPED_PARTS = {"attention": decoder.attention, "project": decoder.project}
VARIANTS = {
    "as shipped": {},
    "plain attention": {"attention": plain_attention},
    "plain products": {"project": jnp.matmul},
    "plain": {"attention": plain_attention, "project": jnp.matmul},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    model, params = models.load(SHIPPED)
    model = model.clone(remat=False, unroll=model.config.num_layers)
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(0, model.config.vocab_size, SHAPE), jnp.int32)
    place = jnp.broadcast_to(jnp.arange(SHAPE[1])[None], SHAPE)
    last_reader = jnp.full(SHAPE, SHAPE[1] - 1)

    def loss(params):
        hidden = model.apply({"params": params}, tokens, place, last_reader)
        log_probs, _ = models.target_log_probs(
            model, params, hidden, place, tokens, 1.0, chunk=SHAPE[1]
        )
        return log_probs.sum()

    compiled = {}
    for name, replaced in VARIANTS.items():
        with mock.patch.multiple(decoder, **{**SHIPPED_PARTS, **replaced}):
            compiled[name] = jax.jit(jax.grad(loss)).lower(params).compile()
    seconds = {name: [] for name in compiled}
    for _ in range(rounds):
        for name, run in compiled.items():
            start = time.perf_counter()
            jax.block_until_ready(run(params))
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print("| update | ms | x as shipped |\n|---|---|---|")
    for name, median in medians.items():
        ratio = median / medians["as shipped"]
        print(f"| {name} | {1e3 * median:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
