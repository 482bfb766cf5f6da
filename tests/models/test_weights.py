"""Hugging Face folders: golden logits, round trips, and one clear line per mistake."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rlvr_jax import models
from rlvr_jax.models import placement

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "models"
NAMES = sorted(folder.name for folder in GOLDENS.iterdir() if folder.is_dir())


@pytest.fixture
def folder(tmp_path):
    """A copy of a golden model that a test may break."""
    shutil.copytree(GOLDENS / "llama_tied", tmp_path / "model")
    return tmp_path / "model"


def edit(folder: pathlib.Path, change) -> None:
    """Rewrite the weights of a folder after `change(tensors)`."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def stored(folder: pathlib.Path) -> dict[str, np.ndarray]:
    files = sorted(folder.glob("*.safetensors"))
    return {name: x for file in files for name, x in load_file(file).items()}


@pytest.mark.parametrize("name", NAMES)
def test_golden_logits_of_transformers(name):
    model, params = models.load(GOLDENS / name)
    golden = np.load(GOLDENS / name / "logits.npz")
    logits = models.logits(model, params, golden["tokens"])
    assert np.std(golden["logits"]) > 0.5
    # Measured: 7e-6 at most; the rest is room for other machines.
    np.testing.assert_allclose(logits, golden["logits"], atol=5e-5)


@pytest.mark.parametrize("name", NAMES)
def test_save_writes_the_tensors_that_transformers_wrote(name, tmp_path):
    model, params = models.load(GOLDENS / name)
    dtype = "bfloat16" if name == "llama_bfloat16" else "float32"
    models.save(tmp_path, model, params, dtype=dtype)
    wanted, found = stored(GOLDENS / name), stored(tmp_path)
    assert wanted.keys() == found.keys()
    for key, x in wanted.items():
        assert x.dtype == found[key].dtype
        np.testing.assert_array_equal(x, found[key], err_msg=key)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_saved_config_says_what_transformers_said(name, tmp_path):
    model, params = models.load(GOLDENS / name)
    models.save(tmp_path, model, params)
    ours = json.loads((tmp_path / "config.json").read_text())
    theirs = json.loads((GOLDENS / name / "config.json").read_text())
    # The rotary embedding stands there for both generations of readers.
    rotary = {"rope_theta", "rope_parameters", "rope_scaling"}
    for key in ours.keys() - rotary - {"dtype"}:
        # Qwen2's file has no attention_bias or head_dim: neither may ours.
        assert ours[key] == theirs[key], key
    assert models.ModelConfig.from_hf(ours) == model.config


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_save_then_load_is_bit_identical(dtype, tmp_path):
    model, params = models.load(GOLDENS / "qwen3", dtype=dtype)
    models.save(tmp_path / "deep" / "er", model, params, dtype=dtype)
    again, loaded = models.load(tmp_path / "deep" / "er", dtype=dtype)
    assert again == model
    jax.tree.map(np.testing.assert_array_equal, params, loaded)
    assert {x.dtype for x in jax.tree.leaves(loaded)} == {jnp.dtype(dtype)}


def test_saved_weights_can_be_read_by_others(tmp_path):
    model, params = models.load(GOLDENS / "qwen3")
    models.save(tmp_path, model, params)
    modes = {
        (tmp_path / n).stat().st_mode for n in ("config.json", "model.safetensors")
    }
    assert len(modes) == 1


def test_types_are_read_tensor_by_tensor(folder):
    before = stored(folder)

    def narrow(tensors):
        for name in ("model.embed_tokens.weight", "model.norm.weight"):
            tensors[name] = tensors[name].astype(ml_dtypes.bfloat16)
        name = "model.layers.1.mlp.up_proj.weight"
        tensors[name] = tensors[name].astype(np.float16)

        name = "model.layers.0.self_attn.q_proj.weight"
        tensors[name] = tensors[name].astype(np.float64) + 1e-12

    edit(folder, narrow)
    _, params = models.load(folder)
    query = before["model.layers.0.self_attn.q_proj.weight"].T
    np.testing.assert_array_equal(params["layers"]["query"][0], query)
    embed = before["model.embed_tokens.weight"].astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(params["embed"], embed.astype(np.float32))
    up = [before[f"model.layers.{i}.mlp.up_proj.weight"].T for i in range(2)]
    np.testing.assert_array_equal(params["layers"]["up"][0], up[0])
    np.testing.assert_array_equal(params["layers"]["up"][1], up[1].astype(np.float16))


@pytest.mark.parametrize("piece_bytes", [placement.PIECE_BYTES, 4096])
def test_each_device_reads_its_own_shard(piece_bytes, monkeypatch):
    monkeypatch.setattr(placement, "PIECE_BYTES", piece_bytes)
    model, whole = models.load(GOLDENS / "qwen3")
    mesh = jax.make_mesh((2, 4), ("data", "fsdp"), (jax.sharding.AxisType.Auto,) * 2)
    rules = {"embed": "fsdp", "layers": "data"}

    def place(names):
        return jax.NamedSharding(mesh, jax.P(*(rules.get(n) for n in names)))

    axes = models.logical_axes(model.config)
    shardings = jax.tree.map(place, axes, is_leaf=lambda x: isinstance(x, tuple))
    _, sharded = models.load(GOLDENS / "qwen3", shardings=shardings)
    jax.tree.map(np.testing.assert_array_equal, whole, sharded)
    query = sharded["layers"]["query"]
    assert query.sharding == shardings["layers"]["query"]
    assert query.addressable_shards[0].data.shape == (1, 8, 48)


def test_large_models_are_saved_in_several_files(tmp_path):
    model, params = models.load(GOLDENS / "qwen3")
    models.save(tmp_path, model, params, shard_bytes=30_000)
    files = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    total = len(files)
    assert total > 3
    assert files == [
        f"model-{i + 1:05d}-of-{total:05d}.safetensors" for i in range(total)
    ]
    for file in files:
        tensors = load_file(tmp_path / file)
        assert sum(x.nbytes for x in tensors.values()) <= 30_000
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    theirs = json.loads((GOLDENS / "qwen3/model.safetensors.index.json").read_text())
    assert index["metadata"] == theirs["metadata"]
    assert index["weight_map"].keys() == theirs["weight_map"].keys()
    for name, file in index["weight_map"].items():
        assert name in load_file(tmp_path / file)
    again, loaded = models.load(tmp_path)
    assert again == model
    jax.tree.map(np.testing.assert_array_equal, params, loaded)


def test_a_tensor_above_the_limit_has_its_own_file(tmp_path):
    model, params = models.load(GOLDENS / "olmo2")
    models.save(tmp_path, model, params, shard_bytes=1)
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) == len(stored(GOLDENS / "olmo2"))
    _, loaded = models.load(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, params, loaded)


@pytest.mark.parametrize("first, then", [(30_000, 10**9), (10**9, 30_000)])
def test_saving_again_leaves_no_file_of_before(first, then, tmp_path):
    model, params = models.load(GOLDENS / "qwen3")
    other = jax.tree.map(lambda x: x + 1, params)
    models.save(tmp_path, model, other, shard_bytes=first)
    (tmp_path / "tokenizer.json").write_text("{}")
    models.save(tmp_path, model, params, shard_bytes=then)
    _, loaded = models.load(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, params, loaded)
    models.save(tmp_path / "new", model, params, shard_bytes=then)
    names = {file.name for file in (tmp_path / "new").iterdir()}
    kept = {"new", "tokenizer.json"}
    assert {file.name for file in tmp_path.iterdir()} == names | kept


def test_sharded_parameters_are_saved_as_whole_ones(tmp_path):
    model, params = models.load(GOLDENS / "olmo2_tied")
    mesh = jax.make_mesh((4,), ("fsdp",), (jax.sharding.AxisType.Auto,))

    def place(names):
        axes = ("fsdp" if name in ("embed", "norm") else None for name in names)
        return jax.NamedSharding(mesh, jax.P(*axes))

    axes = models.logical_axes(model.config)
    shardings = jax.tree.map(place, axes, is_leaf=lambda x: isinstance(x, tuple))
    models.save(tmp_path, model, jax.device_put(params, shardings))
    for key, x in stored(GOLDENS / "olmo2_tied").items():
        np.testing.assert_array_equal(x, stored(tmp_path)[key], err_msg=key)


def test_no_room_in_a_file(tmp_path):
    model, params = models.load(GOLDENS / "olmo2")
    with pytest.raises(ValueError, match=r"shard_bytes: wanted at least 1, got 0"):
        models.save(tmp_path, model, params, shard_bytes=0)


def test_a_tied_model_may_repeat_its_embedding_as_the_head(folder):
    def repeat(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()

    edit(folder, repeat)
    _, params = models.load(folder)
    assert "head" not in params
    edit(folder, lambda tensors: tensors.update({"lm_head.weight": np.ones((97, 32))}))
    with pytest.raises(ValueError, match=r"lm_head.weight differs from the embedding"):
        models.load(folder)


def test_old_rotary_tables_are_passed_over(folder):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit(folder, lambda t: t.update({name: np.ones(4, np.float32)}))
    models.load(folder)


def test_missing_tensors(folder):
    edit(folder, lambda t: [t.pop(n) for n in list(t) if ".1.mlp" in n])
    names = ", ".join(f"model.layers.1.mlp.{n}_proj.weight" for n in ("down", "gate"))
    with pytest.raises(ValueError, match=f"missing tensors: {names}"):
        models.load(folder)


def test_many_missing_tensors_stay_one_line(folder):
    edit(folder, lambda t: [t.pop(n) for n in list(t) if ".1." in n])
    with pytest.raises(ValueError, match=r"missing tensors: .* and 3 more$") as error:
        models.load(folder)
    assert "\n" not in str(error.value)


def test_missing_head_of_an_untied_model(folder):
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"missing tensors: lm_head.weight$"):
        models.load(folder)


def test_unused_tensors(folder):
    name = "model.layers.2.mlp.up_proj.weight"
    edit(folder, lambda t: t.update({name: np.ones((48, 32), np.float32)}))
    with pytest.raises(ValueError, match=f"unused tensors: {name}$"):
        models.load(folder)


@pytest.mark.parametrize(
    ("name", "wanted", "got"),
    [
        ("model.layers.1.mlp.down_proj.weight", r"\(32, 48\)", (48, 32)),
        ("model.norm.weight", r"\(32,\)", (1, 32)),
        ("model.embed_tokens.weight", r"\(97, 32\)", (96, 32)),
    ],
)
def test_wrong_shape(folder, name, wanted, got):
    edit(folder, lambda t: t.update({name: np.ones(got, np.float32)}))
    found = ", ".join(map(str, got))
    message = rf"{name}: wanted shape {wanted} .*, got \({found}\)"
    with pytest.raises(ValueError, match=message):
        models.load(folder)


def test_wrong_type(folder):
    edit(folder, lambda t: t.update({"model.norm.weight": np.ones(32, np.int8)}))
    with pytest.raises(ValueError, match=r"model.norm.weight: wanted .*BF16.*, got I8"):
        models.load(folder)


@pytest.mark.parametrize("left", [0, 5, 3000, -1], ids=lambda n: f"{n}_bytes")
def test_truncated_file(folder, left):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(ValueError, match=r"model.safetensors: truncated or corrupt"):
        models.load(folder)


def test_missing_folder_config_and_weights(folder):
    with pytest.raises(ValueError, match=r"wanted a Hugging Face folder, .*nowhere"):
        models.load(folder / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has neither model.safetensors nor"):
        models.load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"has no config.json"):
        models.load(folder)


def test_a_missing_shard_and_a_broken_index(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(GOLDENS / "qwen3", folder)
    shard = "model-00002-of-00002.safetensors"
    (folder / shard).unlink()
    with pytest.raises(ValueError, match=f"names {shard}, which .* lacks"):
        models.load(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map')
    with pytest.raises(ValueError, match=r"index.json: not a safetensors index"):
        models.load(folder)


def test_unknown_dtype(folder):
    model, params = models.load(folder)
    message = r"dtype: wanted one of .*'bfloat16'.*, got 'int8'"
    with pytest.raises(ValueError, match=message):
        models.load(folder, dtype="int8")
    with pytest.raises(ValueError, match=message):
        models.save(folder, model, params, dtype="int8")
