"""Operations from shapes: against a count by hand, and against the compiler's."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from rlvr_jax import models, packing
from rlvr_jax.capacity import work
from rlvr_jax.config import ObjectiveSection, OptimizerSection
from rlvr_jax.models.attention import attention
from rlvr_jax.training.step import TrainStep

from . import stand_in

MODEL = stand_in.MODEL


def compiled_flops(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


def test_entries_by_hand():
    # q and out 32 x 32, k and v 32 x 16, three of 32 x 64; norms 2 x 32 + 2 x 8.
    layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64
    assert work.matrix_sizes(MODEL) == (2 * layer, 256 * 32)
    outer = 2 * 256 * 32 + 32
    assert models.parameter_count(MODEL) == 2 * (layer + 2 * 32 + 2 * 8) + outer
    _, params = models.init(MODEL, jax.random.key(0))
    assert models.parameter_count(MODEL) == sum(x.size for x in jax.tree.leaves(params))


def test_training_by_hand():
    found = work.training_work(
        MODEL, rows=2, row_length=4, target_length=3, remat=True, itemsize=2
    )
    layers, head = work.matrix_sizes(MODEL)
    # Per row 4 tokens: 1 + 2 + 3 + 4 pairs; per head 8 entries, 2 products, 2 layers.
    causal = 2 * 10 * 2 * (2 * 4 * 8)
    assert found.model_flops == 6 * (layers * 8 + head * 6 + causal)
    # One block of 4 x 4 pairs; products: 2 forward, 2 again, 5 backward.
    blocks = 2 * 16 * 9 * (2 * 4 * 8)
    assert found.flops == 2 * (4 * layers * 8 + 4 * head * 6 + blocks)
    masters = 12 * models.parameter_count(MODEL)
    used = 2 * (layers * 6 + head * 4)
    assert found.traffic == masters + used + 2 * 2 * 8 * 32 * 2


def test_training_against_the_compiler():
    # Wide enough that matrices outweigh norms, rotations and exponentials; no loops.
    # Without loops a CPU compiler computes nothing twice, whatever `remat` asks for.
    wide = dataclasses.replace(
        MODEL, width=128, head_dim=32, mlp_width=512, vocab_size=1024
    )
    step = TrainStep(
        models.Decoder(wide, remat=False, unroll=wide.num_layers),
        objective=ObjectiveSection(),
        optimizer=OptimizerSection(),
        num_steps=1,
        head_chunk=128,
    )
    params = jax.eval_shape(lambda k: models.init(wide, k)[1], jax.random.key(0))
    rows = packing.empty_batch(2, row_length=128, target_length=128)
    counted = compiled_flops(step._add_gradients, params, params, rows, 1.0)
    found = work.training_work(
        wide, rows=2, row_length=128, target_length=128, remat=False, itemsize=4
    )
    head = 2 * work.matrix_sizes(wide)[1] * 2 * 128
    # The head's loop of one chunk is a call of its own: again in the backward pass.
    assert found.flops == pytest.approx(counted, rel=0.04) or (
        found.flops - head == pytest.approx(counted, rel=0.04)
    )


def test_adapters_have_no_gradients_of_matrices():
    sizes = {"rows": 2, "row_length": 4, "target_length": 3, "remat": True}
    everything = work.training_work(MODEL, **sizes)
    found = work.training_work(MODEL, **sizes, adapters=100)
    layers, head = work.matrix_sizes(MODEL)
    saved = 2 * (layers * 8 + head * 6) - 2 * 2 * 100 * 8
    assert everything.model_flops - found.model_flops == saved
    assert everything.flops - found.flops == saved
    fewer = models.parameter_count(MODEL) - 100
    assert everything.traffic - found.traffic == 12 * fewer
    assert work.apply_work(100, copies=2).traffic == 7 * 4 * 200


def test_attention_against_the_compiler():
    length, heads, size = 1024, 2, 64
    q = jax.ShapeDtypeStruct((1, length, heads, size), jnp.float32)
    reader = jax.ShapeDtypeStruct((1, length), jnp.int32)
    counted = compiled_flops(functools.partial(attention), q, q, q, reader)
    pairs = work._block_pairs(length, 128)
    # 8 blocks of 128 queries that read 128, 256, ... keys.
    assert pairs == 128 * 128 * 36
    assert 2 * 2 * pairs * heads * size == pytest.approx(counted, rel=0.06)


def test_decoding_by_hand_and_traffic():
    found = work.decode_work(
        MODEL,
        contexts=3,
        branches=4,
        context_length=10,
        new_length=6,
        itemsize=2,
        groups=2,
    )
    layers, head = work.matrix_sizes(MODEL)
    pairs = 2 * 12 * 16 * (2 * 4 * 8)
    assert found.flops == 2 * ((layers + head) * 12 + pairs)
    # Keys and values of 2 layers, 2 heads of 8, 2 bytes; a context is read once.
    token = 2 * 2 * 2 * 8 * 2
    assert found.traffic == 2 * 2 * (layers + head) + token * 3 * (10 + 4 * 6)


def test_work_adds_up():
    one = work.Work(1.0, 2.0, 3.0)
    assert one.times(3).plus(one) == work.Work(4.0, 8.0, 12.0)
