"""Bytes between devices: known programs on eight devices, and the TPU's forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from rlvr_jax.capacity.collectives import by_kind, collectives

SIZE = 64 * 32 * 4  # bytes of a whole array here


def mesh():
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))


def measured(function, spec):
    """Collectives of a mapped function of one float32 [64, 32]."""
    mapped = jax.jit(
        jax.shard_map(
            function,
            mesh=mesh(),
            in_specs=spec,
            out_specs=spec,
            check_vma=False,
        )
    )
    where = NamedSharding(mesh(), spec)
    x = jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=where)
    return collectives(mapped.lower(x).compile().as_text(), 8)


def test_all_gather_over_one_axis():
    found, _ = measured(
        lambda x: jax.lax.all_gather(x, "a", tiled=True)[:16] + x, P("a")
    )
    # A device has a quarter and receives the other three.
    assert by_kind(found) == {"all-gather": {"count": 1, "bytes": SIZE * 3 // 4}}
    assert (found[0].group, found[0].size) == (4, SIZE)


def test_all_reduce_goes_there_and_back():
    found, _ = measured(lambda x: jax.lax.psum(x, ("a", "b")), P())
    assert by_kind(found) == {"all-reduce": {"count": 1, "bytes": 2 * SIZE * 7 // 8}}


def test_reduce_scatter():
    def function(x):
        part = jax.lax.psum_scatter(x, "b", scatter_dimension=0, tiled=True)
        return jnp.concatenate([part, part])

    found, _ = measured(function, P())
    table = by_kind(found)
    # CPUs may write it as an all-reduce: never more than that, never less than half.
    assert SIZE // 2 <= sum(row["bytes"] for row in table.values()) <= SIZE
    assert set(table) <= {"reduce-scatter", "all-reduce"}


def test_permutation_and_exchange():
    def function(x):
        x = jax.lax.ppermute(x, "a", [(i, (i + 1) % 4) for i in range(4)])
        return jax.lax.all_to_all(x, "b", 0, 0, tiled=True)

    found, _ = measured(function, P())
    assert by_kind(found) == {
        "collective-permute": {"count": 1, "bytes": SIZE},
        "all-to-all": {"count": 1, "bytes": SIZE // 2},
    }


def test_loops_multiply():
    def function(x):
        def turn(x, _):
            return jnp.sin(jax.lax.psum(x, "a")), None

        return jax.lax.scan(turn, x, None, length=6)[0]

    found, unknown = measured(function, P())
    table = by_kind(found)
    assert table == {"all-reduce": {"count": 6, "bytes": 6 * 2 * SIZE * 3 // 4}}
    assert unknown == []


def test_one_device_sends_nothing():
    text = jax.jit(lambda x: x @ x).lower(jnp.ones((8, 8))).compile().as_text()
    assert collectives(text, 1) == ([], [])


# One gather, written three times by the TPU compiler; beside it a sum of which each
# device keeps its part, and one along an axis of which only a part takes part.
TPU = """HloModule example

%start (p: bf16[1,128,64]) -> (bf16[1,128,64], bf16[1,1024,64], u32[]) {
  %p = bf16[1,128,64]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)
  %all-gather.1 = bf16[1,1024,64]{2,1,0} all-gather(%p), channel_id=6, GROUPS
  ROOT %s = (bf16[1,128,64], bf16[1,1024,64], u32[]) custom-call(%all-gather.1)
}

%middle (q: bf16[1,128,64]) -> bf16[1,1024,64] {
  %q = bf16[1,128,64]{2,1,0} parameter(0)
  ROOT %all-gather.2 = bf16[1,1024,64]{2,1,0} all-gather(%q), channel_id=6, GROUPS
}

%all-reduce-scatter.1 (r: f32[1024]) -> f32[128] {
  %r = f32[1024]{0} parameter(0)
  %all-reduce.1 = f32[1024]{0} all-reduce(%r), channel_id=7, GROUPS, to_apply=%add
  %where = s32[] constant(0)
  ROOT %part = f32[128]{0} dynamic-slice(%all-reduce.1, %where), sizes={128}
}

ENTRY %main (a: bf16[1,128,64], b: f32[1024]) -> f32[128] {
  %a = bf16[1,128,64]{2,1,0} parameter(0)
  %b = f32[1024]{0} parameter(1)
  %one = (bf16[1,128,64], bf16[1,1024,64], u32[]) fusion(%a), calls=%start
  %two = bf16[1,1024,64]{2,1,0} fusion(%a), kind=kLoop, calls=%middle
  %send = (f32[1024], f32[1024], u32[], u32[]) collective-permute-start(%b), \
channel_id=9, source_target_pairs={{0,1},{1,0}}
  ROOT %three = f32[128]{0} fusion(%b), kind=kCustom, calls=%all-reduce-scatter.1
}
"""


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("replica_groups=mesh['data'=2,'fsdp'=8,'tensor'=1] {'fsdp'}", 8),
        ("replica_groups=mesh['data'=2,'fsdp'=4,'tensor'=1] {'data','fsdp'}", 8),
        ("replica_groups=mesh['fsdp'=16] {'fsdp':(2)8}", 8),
        ("replica_groups=[2,8]<=[16]", 8),
        ("replica_groups=[4,4]<=[2,8]T(1,0)", 4),
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", 4),
    ],
)
def test_forms_of_the_tpu_compiler(groups, size):
    found, _ = collectives(TPU.replace("GROUPS", groups), 16)
    rest = (size - 1) / size
    assert by_kind(found) == {
        "all-gather": {"count": 1, "bytes": 1024 * 64 * 2 * rest},
        "reduce-scatter": {"count": 1, "bytes": 4096 * rest},
        "collective-permute": {"count": 1, "bytes": 4096},
    }


def test_groups_in_an_unknown_form():
    with pytest.raises(ValueError, match=r"replica_groups must be in a known.*what"):
        collectives(TPU.replace("GROUPS", "replica_groups=what"), 16)


def test_sharded_weights_are_gathered_once_per_layer():
    layers, width = 5, 32
    here = Mesh(np.array(jax.devices()[:8]), ("fsdp",))

    @functools.partial(jax.jit, out_shardings=NamedSharding(here, P("fsdp")))
    def forward(x, weights):
        def layer(x, w):
            w = jax.lax.with_sharding_constraint(w, NamedSharding(here, P()))
            return jnp.tanh(x @ w), None

        return jax.lax.scan(layer, x, weights)[0]

    x = jax.ShapeDtypeStruct(
        (16, width), jnp.float32, sharding=NamedSharding(here, P("fsdp"))
    )
    weights = jax.ShapeDtypeStruct(
        (layers, width, width),
        jnp.float32,
        sharding=NamedSharding(here, P(None, "fsdp")),
    )
    text = forward.lower(x, weights).compile().as_text()
    table = by_kind(collectives(text, 8)[0])
    assert table["all-gather"]["bytes"] == layers * width * width * 4 * 7 // 8
