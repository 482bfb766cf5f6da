"""The model shipped with the package: complete, small, and still the same function."""

import json
import pathlib

import numpy as np

import rlvr_jax
from rlvr_jax import models
from rlvr_jax.tasks import load_tokenizer, synthesize

DIRECTORY = pathlib.Path(rlvr_jax.__file__).parent / "assets" / "tiny_base"
GOLDENS = pathlib.Path(__file__).parent / "goldens" / "tiny_base.npz"


def test_logits_are_the_recorded_ones():
    model, params = models.load(DIRECTORY)
    with np.load(GOLDENS) as goldens:
        tokens, wanted = goldens["tokens"], goldens["last_logits"]
    got = models.logits(model, params, tokens)[:, -wanted.shape[1] :]
    np.testing.assert_allclose(got, wanted, atol=2e-4, rtol=0)


def test_tokenizer_fits_the_model():
    tokenizer = load_tokenizer(DIRECTORY)
    config = models.ModelConfig.from_directory(DIRECTORY)
    assert tokenizer.vocab_size == config.vocab_size == 100
    stop = json.loads((DIRECTORY / "generation_config.json").read_text())
    assert tokenizer.stop_ids == (stop["eos_token_id"],)


def test_size_is_what_a_package_can_carry():
    files = [file for file in DIRECTORY.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 6 * 2**20
    assert not list(DIRECTORY.glob("*.partial"))


def test_it_answers_held_out_tasks_more_often_than_it_ignores_them():
    # Not a benchmark: a model whose weights were mixed up answers none of them.
    model, params = models.load(DIRECTORY)
    tokenizer = load_tokenizer(DIRECTORY)
    tasks = synthesize(
        seed=2, start=0, count=24, split="heldout", levels=(1.0, 0.0, 0.0)
    )
    margins = []
    for task, other in zip(tasks, tasks[1:] + tasks[:1], strict=True):
        prompt = tokenizer.prompt_ids(task.prompt)
        right, wrong = (
            _log_prob(model, params, prompt, tokenizer.encode(text))
            for text in (task.answer, other.answer)
        )
        margins.append(right - wrong)
    assert np.mean(np.array(margins) > 0) > 0.7


def _log_prob(model, params, prompt, response):
    width = 64
    tokens = np.zeros((1, width), np.int32)
    row = [*prompt, *response]
    tokens[0, : len(row)] = row
    logits = np.asarray(models.logits(model, params, tokens))[0]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    places = np.arange(len(prompt) - 1, len(row) - 1)
    return log_probs[places, response].mean()
