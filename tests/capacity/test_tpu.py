"""The TPU compiler itself, on a small model: what the parsers read is what it writes.

Needs libtpu, on any host: pip install libtpu; pytest -m tpu tests/capacity/test_tpu.py
"""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from rlvr_jax import models
from rlvr_jax.capacity import check_capacity, load_topology
from rlvr_jax.capacity.programs import measure
from rlvr_jax.capacity.topologies import host_topology
from rlvr_jax.capacity.work import Work

from . import stand_in

pytestmark = pytest.mark.tpu

# Sizes that fill the chip's tiles, so that nothing is padded.
MODEL = dataclasses.replace(
    stand_in.MODEL, vocab_size=1024, width=256, head_dim=64, mlp_width=512, num_layers=3
)


def config(**changes):
    sizes = {"update__row_length": 256, "update__target_length": 256}
    return stand_in.config(model__dtype="bfloat16", **{**sizes, **changes})


def test_a_step_on_eight_chips():
    found = check_capacity(
        config(mesh__fsdp=8, mesh__tensor=1), MODEL, load_topology("v5e:2x4")
    )
    assert found.fits
    by_name = {program.name: program for program in found.programs}
    accumulate = by_name["accumulate"]
    assert accumulate.unknown_loops == 0 and by_name["decode"].unknown_loops == 1
    entries = models.parameter_count(MODEL)
    # Weights in bfloat16 arrive for the forward pass and again for the backward one;
    # their gradients leave once, in either type. A device lacks seven eighths.
    weights = 2 * entries * 7 / 8
    gathered = accumulate.collectives["all-gather"]["bytes"]
    assert 1.5 * weights < gathered < 3 * weights
    total = sum(row["bytes"] for row in accumulate.collectives.values())
    assert 2.5 * weights < total < 8 * weights
    assert by_name["unstack"].collectives["all-gather"]["bytes"] > weights * 0.9


def test_a_program_that_is_too_large_is_refused_with_its_size():
    topology = load_topology("v5e:2x2")
    place = jax.sharding.SingleDeviceSharding(topology.devices[0])
    x = jax.ShapeDtypeStruct((8, 2**29), jnp.float32, sharding=place)
    program = measure(
        "double",
        jax.jit(lambda x: 2 * x).lower(x),
        compiled_for=topology.name,
        runs=1,
        work_done=Work(0.0, 0.0, 0.0),
        num_devices=1,
    )
    # 16 GiB are read and 16 written.
    assert program.needed == 32 * 2**30 > topology.chip.memory


def test_a_part_of_a_slice_has_a_stand_in():
    whole, cube = load_topology("v5e:8x8"), load_topology("v5p:2x2x4")
    assert host_topology(whole).name == "v5e:2x2"
    assert host_topology(cube) is cube


@pytest.mark.parametrize("name", ["v5e:3x3", "v5p:3x2x2"])
def test_a_slice_that_does_not_exist(name):
    with pytest.raises(ValueError, match=rf"{name}.*not divisible.*valid are"):
        load_topology(name)
