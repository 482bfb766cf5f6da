"""Writes tiny_base.npz: token rows and the shipped model's logits on them.

Run from the repository root, with the package importable, whenever the shipped model
is replaced.
"""

import pathlib

import numpy as np

from rlvr_jax import models, tasks

DIRECTORY = pathlib.Path("rlvr_jax/assets/tiny_base")


def main() -> None:
    """Rows of one length: two prompts, cut, and what the model likes to say."""
    model, params = models.load(DIRECTORY)
    tokenizer = tasks.load_tokenizer(DIRECTORY)
    some = tasks.synthesize(seed=5, start=0, count=3, split="heldout")
    rows = [tokenizer.prompt_ids(t.prompt) + tokenizer.encode(t.answer) for t in some]
    length = min(map(len, rows))
    tokens = np.array([row[-length:] for row in rows], np.int32)
    logits = np.asarray(models.logits(model, params, tokens))[:, -4:]
    target = pathlib.Path(__file__).parent / "tiny_base.npz"
    np.savez_compressed(target, tokens=tokens, last_logits=logits)


if __name__ == "__main__":
    main()
