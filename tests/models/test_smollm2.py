"""The real SmolLM2-135M-Instruct against numbers made with transformers and torch.

bash launch/fetch_smollm2.sh DIR
SMOLLM2=DIR python -m pytest -m slow tests/models/test_smollm2.py
"""

import json
import os
import pathlib

import jax
import numpy as np
import pytest

from rlvr_jax import models, tasks

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "smollm2" / "goldens.json"
LENGTH = 64


@pytest.mark.slow
def test_log_probs_and_ids_equal_transformers():
    directory = os.environ["SMOLLM2"]
    texts = json.loads(GOLDENS.read_text())["texts"]
    tokenizer = tasks.load_tokenizer(directory)
    for golden in texts:
        assert tokenizer.encode(golden["text"]) == golden["token_ids"]
    model, params = models.load(directory)
    scored = [golden for golden in texts if golden["mean_log_prob"] is not None]
    assert len(scored) >= 19
    for golden in scored:
        ids = np.array(golden["token_ids"])
        assert len(ids) <= LENGTH
        padded = np.zeros((1, LENGTH), np.int32)
        padded[0, : len(ids)] = ids
        logits = models.logits(model, params, padded)[0]
        table = jax.nn.log_softmax(logits, axis=-1)
        mean = np.asarray(table)[np.arange(len(ids) - 1), ids[1:]].mean()
        assert abs(mean - golden["mean_log_prob"]) < 1e-4
        # The order of near ties may differ; their logits may not.
        top = np.sort(np.asarray(logits[len(ids) - 1]))[::-1][:5]
        np.testing.assert_allclose(top, golden["top_logits"], atol=2e-3)
