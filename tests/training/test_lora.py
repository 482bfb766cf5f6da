"""A run that trains adapters: a frozen base, small checkpoints, exact resumes."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
import safetensors.numpy

from rlvr_jax import config as configs
from rlvr_jax import models, packing
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.export import export
from rlvr_jax.training import loop
from rlvr_jax.training.policy import LoraPolicy, start_of
from rlvr_jax.training.step import TrainStep
from rlvr_jax.training.workbench import open_workbench
from tests import meshes
from tests.packing import paths
from tests.training import tiny

TARGETS = ("query", "down")


@pytest.fixture
def run_config(make_config):
    return make_config(
        steps=3,
        lora__rank=2,
        lora__targets=TARGETS,
        lora__alpha=4.0,
        objective__kl_coefficient=0.1,
        checkpoint__every=1,
        eval__every=3,
    )


@pytest.fixture(scope="module")
def workdir_path(tmp_path_factory):
    return tmp_path_factory.mktemp("lora") / "run"


@pytest.fixture
def workdir(run_config, letters, workdir_path):
    """Folder of a run of three steps."""
    if not workdir_path.exists():
        loop.train(run_config, workdir_path, resume=None)
    return workdir_path


def metrics_of(workdir):
    """Rows of metrics, without times and compilations."""
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    process = ("time/", "compile/")
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith(process)}
        for line in lines
    ]


def test_the_sampler_and_the_trainer_agree_and_the_adapters_move(workdir, run_config):
    rows = metrics_of(workdir)
    assert all(row["grad/norm"] > 0 for row in rows)
    # The bound that is stated for float32.
    assert max(row["policy/sampler_gap"] for row in rows) <= 1e-5
    # The reference is the base: they are one before the first step, and then part.
    assert rows[0]["policy/kl_k1"] == pytest.approx(0, abs=1e-6)
    assert abs(rows[2]["policy/kl_k1"]) > 1e-4


def opened(config, workdir, step):
    """(workbench, state of a step's checkpoint)."""
    bench, params = open_workbench(config)
    with bench, Checkpoints(workdir / "checkpoints") as checkpoints:
        like = loop.make_train_step(bench).init(params)
        return bench, checkpoints.restore(step, like)[0]


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def assert_equal(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def test_a_checkpoint_holds_adapters_and_their_moments_alone(workdir, run_config):
    bench, state = opened(run_config, workdir, 3)
    # Width 16, MLP 16, one layer: a pair of rank 2 has 2 * (16 + 16) numbers.
    assert sum(leaf.size for leaf in leaves(state.params)) == 2 * 64
    # Two moments, Adam's count and the step.
    assert sum(leaf.size for leaf in leaves(state)) == 3 * 2 * 64 + 2
    pair = state.params["layers"]["down"]
    assert np.abs(pair["b"]).min() > 0
    _, start = models.load(run_config.model.path)
    assert_equal(bench.policy.frozen, start)


def test_updates_leave_the_base_alone(workdir, run_config):
    bench, state = opened(run_config, workdir, 3)
    before = jax.tree.map(np.array, (bench.policy.frozen, state.params))
    gradients = jax.tree.map(np.ones_like, before[1])
    state, _ = loop.make_train_step(bench).update(state, gradients)
    assert_equal(bench.policy.frozen, before[0])
    for new, old in zip(leaves(state.params), leaves(before[1]), strict=True):
        assert (new != old).all()


def test_the_exported_model_has_the_policy_s_logits(workdir, run_config, tmp_path):
    export(workdir, tmp_path / "hf", checkpoint="latest", dtype="float32")
    model, merged = models.load(tmp_path / "hf")
    bench, state = opened(run_config, workdir, 3)
    tokens = np.arange(12, dtype=np.int32).reshape(2, 6)
    written = models.logits(model, merged, tokens)
    policy = models.logits(bench.model, bench.whole(state.params), tokens)
    np.testing.assert_array_equal(written, policy)
    start = models.logits(bench.model, bench.policy.frozen, tokens)
    assert np.abs(written - start).max() > 1e-3


def test_adapters_are_written_as_peft_reads_them(workdir, run_config, tmp_path):
    output = tmp_path / "adapter"
    places = (f"--workdir={workdir}", f"--output={output}")
    done = subprocess.run(
        [sys.executable, "-m", "rlvr_jax.export", "--adapter", *places],
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{output}: step 3 of {workdir}, float32, adapters\n"
    settings = json.loads((output / "adapter_config.json").read_text())
    assert (settings["peft_type"], settings["task_type"]) == ("LORA", "CAUSAL_LM")
    assert (settings["r"], settings["lora_alpha"]) == (2, 4)
    assert settings["target_modules"] == ["q_proj", "down_proj"]
    assert settings["base_model_name_or_path"] == run_config.model.path
    tensors = safetensors.numpy.load_file(output / "adapter_model.safetensors")
    layer = "base_model.model.model.layers.0."
    names = [f"{layer}{m}" for m in ("self_attn.q_proj", "mlp.down_proj")]
    parts = ("lora_A", "lora_B")
    assert set(tensors) == {f"{n}.{part}.weight" for n in names for part in parts}
    # Merged by hand, in the file's own layout, it is the model that export writes.
    export(workdir, tmp_path / "hf", checkpoint="latest", dtype="float32")
    _, merged = models.load(tmp_path / "hf")
    _, start = models.load(run_config.model.path)
    for name, ours in zip(names, TARGETS, strict=True):
        a, b = (tensors[f"{name}.{part}.weight"] for part in parts)
        assert (a.shape, b.shape) == ((2, 16), (16, 2))
        expected = start["layers"][ours][0].T + 4 / 2 * b @ a
        np.testing.assert_allclose(
            merged["layers"][ours][0].T, expected, rtol=0, atol=1e-6
        )
        assert np.abs(b @ a).max() > 1e-4
    untouched = ("key", "value", "output", "gate", "up")
    for ours in untouched:
        np.testing.assert_array_equal(merged["layers"][ours], start["layers"][ours])


def test_a_run_that_goes_on_is_the_run_that_was_not_stopped(
    workdir, run_config, letters, tmp_path
):
    again = tmp_path / "run"
    shutil.copytree(workdir, again)
    # Step 1 is the middle: B is no longer 0, and the reference is still the base.
    loop.train(run_config, again, resume="1")
    assert metrics_of(again) == metrics_of(workdir)
    ends = [opened(run_config, folder, 3)[1] for folder in (again, workdir)]
    assert_equal(*ends)


@pytest.mark.parametrize(
    "changes, found",
    [
        ({"rank": 4}, "lora.rank 4"),
        ({"rank": 0}, r"lora.rank 0 \(all parameters\)"),
        ({"alpha": 8.0}, "lora.rank 2, lora.targets .*, lora.alpha 8.0"),
        ({"targets": ("query",)}, r"lora.rank 2, lora.targets \['query'\]"),
    ],
)
def test_a_checkpoint_of_other_adapters(workdir, run_config, tmp_path, changes, found):
    section = dataclasses.replace(run_config.lora, **changes)
    other = dataclasses.replace(run_config, lora=section)
    message = (
        rf"{workdir} trained with lora.rank 2, lora.targets \['query', 'down'\],"
        rf" lora.alpha 4.0, this configuration has {found}"
    )
    with pytest.raises(ValueError, match=message):
        loop.train(other, workdir, resume="latest")
    # A fork reads the checkpoint of another folder.
    with pytest.raises(ValueError, match=message):
        loop.train(other, tmp_path / "fork", resume=str(workdir))
    assert not (tmp_path / "fork").exists()


def test_adapters_of_a_run_without_any(make_config, tmp_path):
    (tmp_path / "config.json").write_text(configs.to_json(make_config()))
    message = r"--adapter needs a run with lora\.rank above 0; \S+ trained all"
    with pytest.raises(ValueError, match=message):
        export(
            tmp_path,
            tmp_path / "hf",
            checkpoint="latest",
            dtype="float32",
            adapter=True,
        )


def test_the_base_is_frozen_in_the_compute_type(make_config):
    config = make_config(lora__rank=2, model__dtype="bfloat16")
    bench, trained = open_workbench(config)
    with bench:
        layers = bench.policy.frozen["layers"]
        assert layers["query"].dtype == "bfloat16"
        # Read in float32 by every layer; rounding them would change the base.
        assert layers["attention_norm"].dtype == "float32"
        assert {leaf.dtype for leaf in leaves(trained)} == {np.dtype("float32")}
        masters = models.load(config.model.path)[1]
        tokens = np.arange(12, dtype=np.int32).reshape(2, 6)
        np.testing.assert_array_equal(
            models.logits(bench.model, bench.whole(trained), tokens),
            models.logits(bench.model, masters, tokens),
        )


def on_mesh(sizes):
    """(log-probs, gradients of adapters that change something, where they lie)."""
    model, params = meshes.policy(sizes)
    lora = models.Lora(rank=2, targets=("query", "key", "output", "down"), alpha=4.0)
    policy = LoraPolicy(model.config, params, lora=lora)
    mesh = meshes.mesh_of(sizes)
    step = TrainStep(
        model,
        objective=tiny.CLIP,
        optimizer=configs.OptimizerSection(),
        num_steps=10,
        head_chunk=5,
        mesh=mesh,
        policy=policy,
    )
    start = start_of(policy, params, seed=0, mesh=mesh)
    state = step.init(jax.tree.map(lambda x: x + 0.1, start))
    tree = paths.random_tree(0, num_prompts=8)
    batch = tiny.pack(tree, tree.node_mask, *paths.random_credit(tree, 0), tiny.SHORT)
    rows = list(packing.micro_batches(batch, 8))
    log_probs = step.score(state.params, rows[0], tiny.TEMPERATURE)
    gradients, _ = step.gradients(state.params, rows, tiny.TEMPERATURE)
    assert jax.tree.map(lambda x: x.sharding, gradients) == jax.tree.map(
        lambda x: x.sharding, state.params
    )
    return np.asarray(log_probs), jax.tree.map(np.array, gradients)


def test_a_mesh_has_the_gradient_of_one_device():
    (expected, one), (got, many) = on_mesh((1, 1, 1)), on_mesh((2, 2, 2))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)
    tiny.assert_close(many, one, 1e-5)
    assert min(np.abs(leaf).max() for leaf in jax.tree.leaves(one)) > 1e-3
