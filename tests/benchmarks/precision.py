"""How far log-probabilities drift when a model computes in bfloat16.

    python -m tests.benchmarks.precision [DIR ...] [--length=128] [--rows=8]

Parameters stay float32; matrices and activations are cast to bfloat16, as training on
an accelerator does. Compared are the log-probabilities of the next tokens with those of
float32 compute: of a random model on random tokens, and of each Hugging Face folder DIR
on the text of README.md. The gap between sampler and trainer in one type is another
thing: the metric policy/sampler_gap.
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import models, tasks

ROOT = pathlib.Path(__file__).parents[2]


def random_model() -> tuple[models.Decoder, dict]:
    """Four layers of width 256 with weights large enough for confident tokens."""
    config = models.ModelConfig(
        family="qwen3",
        vocab_size=1024,
        width=256,
        num_layers=4,
        num_heads=8,
        num_kv_heads=4,
        head_dim=32,
        mlp_width=768,
        qk_norm=True,
        tied=True,
        initializer_range=0.1,
    )
    return models.init(config, jax.random.key(0))


def log_probs(model: models.Decoder, params: dict, tokens: jax.Array) -> np.ndarray:
    """float32 [R, L - 1]: of each token but the first, given those before it."""
    rows, length = tokens.shape

    @jax.jit
    def run(params):
        positions = jnp.broadcast_to(jnp.arange(length)[None], tokens.shape)
        last_reader = jnp.full_like(positions, length - 1)
        hidden = model.apply({"params": params}, tokens, positions, last_reader)
        source = jnp.broadcast_to(jnp.arange(length - 1)[None], (rows, length - 1))
        return models.target_log_probs(
            model, params, hidden, source, tokens[:, 1:], 1.0
        )[0]

    return np.asarray(run(params))


def report(name: str, model: models.Decoder, params: dict, tokens: jax.Array) -> None:
    """One line of the table."""
    exact = log_probs(model, params, tokens)
    drift = log_probs(model.clone(dtype=jnp.bfloat16), params, tokens) - exact
    size = np.abs(drift)
    print(
        f"{name:24s}{drift.size:8d}{exact.mean():10.3f}{drift.mean():+11.5f}"
        f"{size.mean():10.5f}{np.quantile(size, 0.99):10.4f}{size.max():10.4f}"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="*", metavar="DIR")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rows", type=int, default=8)
    options = parser.parse_args()
    shape = (options.rows, options.length)
    titles = ("log-prob", "difference", "|.|", "|.| 99 %", "|.| max")
    widths = (10, 11, 10, 10, 10)
    columns = (f"{t:>{w}s}" for t, w in zip(titles, widths, strict=True))
    print(f"{'means of':24s}{'tokens':>8s}" + "".join(columns))
    model, params = random_model()
    draws = np.random.default_rng(0).integers(0, model.config.vocab_size, shape)
    report("random", model, params, jnp.asarray(draws, jnp.int32))
    text = (ROOT / "README.md").read_text()
    for directory in options.directories:
        ids = tasks.load_tokenizer(directory).encode(text)[: draws.size]
        tokens = jnp.asarray(np.resize(ids, shape), jnp.int32)
        report(pathlib.Path(directory).name, *models.load(directory), tokens)


if __name__ == "__main__":
    main()
