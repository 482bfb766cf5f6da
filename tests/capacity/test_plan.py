"""What a step does at its limits, and meshes that cannot work."""

import pytest

from rlvr_jax.capacity.plan import make_plan, rows_of

from . import stand_in


def plan(**changes):
    return make_plan(stand_in.config(**changes), stand_in.MODEL, stand_in.topology())


def test_rows_and_micro_batches():
    # A tree has 8 paths; a row of 64 holds one of them, 24 + 16 + 8 + 15.
    assert rows_of(stand_in.config(), 1) == 8
    found = plan()
    assert (found.rows, found.micro_batches, found.updates) == (32, 4, 1)
    # Two paths of one first attempt fit 128 tokens: half the rows.
    assert plan(update__row_length=128, update__target_length=128).rows < 32


def test_a_budget_is_shared_along_a_path():
    assert plan(rollout__budget=16).response_limit == 8
    assert plan().response_limit == 16


def test_epochs_and_mini_batches():
    found = plan(
        update__epochs=2, update__minibatches=2, objective__old_log_probs="recompute"
    )
    assert (found.rows, found.updates, found.micro_batches) == (64, 4, 8)


def test_waves_and_caches():
    found = plan()
    # 4 prompts, then 4 x 4 contexts, in waves of 4.
    assert (found.prompts, found.waves) == (4, (1, 4))
    # Contexts hold 24 + 16 + 8 tokens, branches 16; float32 keys and values of 2 layers
    # with 2 heads of 8; spread over 4 groups by contexts and 2 by heads.
    token = 2 * 2 * 2 * 8 * 4
    tokens = 4 * (48 + 4 * 16) + 16 * (48 + 2 * 16)
    assert found.cache_bytes == tokens * token // 8
    assert found.wave_bytes(branches=4) == 4 * (48 + 4 * 16) * token // 8
    # Three parts of `tensor` do not divide two heads: each device has them whole.
    assert plan(mesh__fsdp=2, mesh__tensor=4).cache_bytes == tokens * token // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mesh__fsdp": 3}, r"\(1, 3, 2\): the product 6 must divide the 8 devices"),
        ({"mesh__fsdp": 2}, r"must use all 8 devices of stand-in:2x4: set one of"),
        ({"mesh__tensor": 8, "mesh__fsdp": 1}, r"mesh.tensor 8 must divide 4 heads"),
        ({"update__rows": 6}, r"update.rows 6 must be a multiple of .* = 4"),
        (
            {"sampler__contexts": (2, 4)},
            r"sampler.contexts 2 must be a multiple",
        ),
    ],
)
def test_a_mesh_that_does_not_divide(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(**changes)
