"""Makes a small base model by imitation.

python -m rlvr_jax.pretrain --config=configs/tiny_base.py --output=HF_DIR
"""

import pathlib
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

from rlvr_jax import config as configuration


def main(argv: Sequence[str]) -> int:
    """Trains, then writes a Hugging Face directory; 2 for a bad configuration."""
    from rlvr_jax import models
    from rlvr_jax.tasks import build_character_tokenizer, load_tokenizer
    from rlvr_jax.training import supervised

    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    try:
        config = configuration.build(
            supervised.PretrainConfig, flags.FLAGS.config.to_dict()
        )
        config.check()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        build_character_tokenizer(directory)
        tokenizer = load_tokenizer(directory)
    output = pathlib.Path(flags.FLAGS.output)
    build_character_tokenizer(output)
    supervised.pretrain(
        config,
        tokenizer,
        report=_report,
        save=lambda model, params: models.save(output, model, params, dtype="float16"),
    )
    return 0


def _report(step: int, values: dict[str, float]) -> None:
    if step % 50 == 0:
        text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
        print(f"step {step}: {text}", flush=True)


def run() -> None:
    """Declares the flags and runs `main`."""
    configuration.define_flag()
    flags.DEFINE_string("output", None, "Where the Hugging Face directory goes.")
    flags.mark_flags_as_required(["config", "output"])
    app.run(main)


if __name__ == "__main__":
    run()
