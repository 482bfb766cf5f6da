"""An exported directory in transformers and torch: equal logits, equal ids.

PARITY_PYTHON=PYTHON python -m pytest -m parity tests/training/test_export_parity.py

PYTHON has torch and transformers; it may be another environment than this one.
"""

import json
import os
import subprocess

import jax
import numpy as np
import pytest

from rlvr_jax import models, tasks
from rlvr_jax.export import export
from rlvr_jax.training import loop
from tests.models.tiny import tiny_config

pytestmark = pytest.mark.parity
# Prints the logits of the exported model and what its tokenizer makes of a prompt.
PROGRAM = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
directory, prompt = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(directory)
ids = tokenizer.apply_chat_template(
    [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
)
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits[0]
stops = model.generation_config.eos_token_id
out = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=8)
print(json.dumps([ids, logits.tolist(), stops, out[0].tolist()]))
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_transformers_loads_an_export(make_config, letters, tmp_path, family, dtype):
    start, output, workdir = (tmp_path / name for name in ("start", "hf", "run"))
    tasks.build_character_tokenizer(start)
    config = tiny_config(family, vocab_size=100, tied=family != "qwen2")
    models.save(start, *models.init(config, jax.random.key(0)))
    loop.train(make_config(steps=1, model__path=str(start)), workdir, resume=None)
    export(workdir, output, checkpoint="latest", dtype=dtype)

    done = subprocess.run(
        [os.environ["PARITY_PYTHON"], "-c", PROGRAM, str(output), "3+1="],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ids, logits, stops, out = json.loads(done.stdout)
    tokenizer = tasks.load_tokenizer(output)
    assert ids == tokenizer.prompt_ids("3+1=")
    assert stops == list(tokenizer.stop_ids)
    model, params = models.load(output)
    mine = np.asarray(models.logits(model, params, np.array([ids]))[0])
    np.testing.assert_allclose(mine, logits, rtol=0, atol=2e-4)
    # Greedy tokens are the same up to their stop.
    for count in range(len(ids), len(out)):
        step = models.logits(model, params, np.array([out[:count]]))[0, -1]
        assert int(step.argmax()) == out[count]
