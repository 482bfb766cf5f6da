"""Live comparison with transformers and torch: saved models, rotary tables, SmolLM2.

    PARITY_PYTHON=PYTHON SMOLLM2=DIR python -m pytest -m parity tests/models

PYTHON has torch and transformers 5 and may be another environment than this one; by
default it is this one. DIR is what `launch/fetch_smollm2.sh DIR` makes.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from rlvr_jax import models, tasks
from rlvr_jax.models import rotary
from rlvr_jax.models.rotary import LinearScaling, YarnScaling
from tests.models.tiny import tiny_config, tiny_model

pytestmark = pytest.mark.parity
HERE = pathlib.Path(__file__).parent
LENGTH = 256

MODELS = {
    "llama": tiny_config("llama"),
    "llama3.1": tiny_config(
        "llama",
        tied=False,
        head_dim=16,
        rope_theta=100.0,
        rope_scaling=rotary.Llama3Scaling(8.0, 1.0, 4.0, 16),
    ),
    "llama, linear": tiny_config("llama", rope_scaling=LinearScaling(4.0)),
    "qwen2": tiny_config("qwen2", num_kv_heads=1),
    "qwen2, yarn": tiny_config(
        "qwen2", tied=False, rope_theta=100.0, rope_scaling=YarnScaling(4.0, 512)
    ),
    "qwen3": tiny_config("qwen3", num_kv_heads=4),
    "qwen3, yarn": tiny_config(
        "qwen3", tied=False, rope_theta=100.0, rope_scaling=YarnScaling(2.0, 512, 1.5)
    ),
    "olmo2": tiny_config("olmo2", tied=False),
    "olmo2, tied": tiny_config("olmo2", num_kv_heads=4, head_dim=16),
}
SCALED = {
    **{
        name: models.named_config(name)
        for name in ("llama3.1-8b", "llama3.2-1b", "llama3.1-70b")
    },
    **{
        f"qwen3-8b {number}": dataclasses.replace(
            models.named_config("qwen3-8b"), rope_scaling=scaling
        )
        for number, scaling in enumerate(
            [
                LinearScaling(2.0),
                YarnScaling(4.0, 32768),
                YarnScaling(4.0, 32768, truncate=False, beta_fast=16.0, beta_slow=2.0),
                YarnScaling(4.0, 32768, mscale=2.0, mscale_all_dim=0.5),
                YarnScaling(1.0, 32768),
            ]
        )
    },
}


def ask(tmp_path, request):
    """The answer of transformers, see torch_side.py."""
    np.savez(tmp_path / "request.npz", **request)
    program = [os.environ.get("PARITY_PYTHON", sys.executable), HERE / "torch_side.py"]
    files = [tmp_path / "request.npz", tmp_path / "answer.npz"]
    done = subprocess.run([*program, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(files[1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_transformers_loads_what_is_saved(dtype, tmp_path):
    # Several files for each, and the same rounded weights on both sides.
    request, expected = {}, {}
    for name, config in MODELS.items():
        folder = tmp_path / name
        model, params = tiny_model(config)
        models.save(folder, model, params, dtype=dtype, shard_bytes=20_000)
        assert len(list(folder.glob("*.safetensors"))) > 1
        model, params = models.load(folder)
        ids = np.random.default_rng(0).integers(0, config.vocab_size, 40)
        request[f"ids/{folder}"] = ids
        expected[folder] = np.asarray(models.logits(model, params, ids[None])[0])
    answer = ask(tmp_path, request)
    for folder, mine in expected.items():
        theirs = answer[f"ids/{folder}"]
        print(f"{folder.name}: {np.abs(mine - theirs).max():.1e}")
        np.testing.assert_allclose(mine, theirs, atol=2e-4, err_msg=folder.name)


def test_rotary_tables_of_real_models(tmp_path):
    request = {
        f"config/{name}": np.array(json.dumps(config.to_hf()))
        for name, config in SCALED.items()
    }
    answer = ask(tmp_path, request)
    for name, config in SCALED.items():
        mine = rotary.frequencies(
            config.head_dim, config.rope_theta, config.rope_scaling
        )
        theirs = answer[f"config/{name}/frequencies"]
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, err_msg=name)
        amplitude = answer[f"config/{name}/amplitude"]
        assert config.rope_scaling.amplitude == pytest.approx(amplitude, rel=1e-12)


def test_smollm2_at_full_size(tmp_path):
    directory = pathlib.Path(os.environ["SMOLLM2"])
    tokenizer = tasks.load_tokenizer(directory)
    readme = (HERE.parents[1] / "README.md").read_text().split("\n\n")
    texts = [text for text in readme if len(text) > 150][:20]
    assert len(texts) == 20
    rows = np.full((20, LENGTH), -1, np.int32)
    for row, text in zip(rows, texts, strict=True):
        ids = tokenizer.encode(text)[:LENGTH]
        row[: len(ids)] = ids
    theirs = ask(tmp_path, {f"rows/{directory}": rows})[f"rows/{directory}"]
    model, params = models.load(directory)
    for row, mean in zip(rows, theirs, strict=True):
        logits = models.logits(model, params, np.maximum(row, 0)[None])[0]
        table = np.asarray(jax.nn.log_softmax(logits, axis=-1))
        count = int((row >= 0).sum())
        mine = table[np.arange(count - 1), row[1:count]].mean()
        print(f"{count} tokens: {mine:.6f}, {mine - mean:+.1e}")
        assert abs(mine - mean) < 1e-4
