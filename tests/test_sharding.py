"""Meshes: sizes and layouts that work, and clear refusals of the others."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from rlvr_jax import models, sharding
from rlvr_jax.models.decoder import embed_tokens
from tests.meshes import CONFIG, mesh_of, places_of, weights

MODEL = {
    "num_heads": 8,
    "num_kv_heads": 4,
    "vocab_size": 96,
    "width": 48,
    "mlp_width": 64,
}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((-1, 1, 1), (8, 1, 1)),
        ((2, -1, 2), (2, 2, 2)),
        ((8, 1, -1), (8, 1, 1)),
        ((2, 2, 1), (2, 2, 1)),
    ],
)
def test_sizes_are_resolved(sizes, expected):
    assert sharding.resolve_sizes(sizes, 8) == expected


@pytest.mark.parametrize(
    ("sizes", "processes", "message"),
    [
        (
            (3, 1, 1),
            1,
            r"\(3, 1, 1\): the product 3 must divide the 8 devices: 1, 2, 4, 8 do",
        ),
        ((16, 1, 1), 1, r"the product 16 must divide the 8 devices"),
        ((-1, 3, 1), 1, r"the product 3 must divide the 8 devices"),
        ((1, 1, 1), 2, r"product 1 must be all 8 devices of the 2 processes: set one"),
        ((-1, 1, 8), 2, r"tensor 8 must divide the 4 devices of a process: 1, 2, 4 do"),
    ],
)
def test_sizes_that_the_devices_cannot_form(sizes, processes, message):
    with pytest.raises(ValueError, match=message):
        sharding.resolve_sizes(sizes, 8, num_processes=processes)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 16, 4), (1, 3, 8)])
def test_a_mesh_that_divides_the_model(sizes):
    sharding.check_model(sizes, **MODEL)


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        (
            (1, 1, 3),
            {},
            r"tensor 3 must divide 8 heads, vocabulary 96 and MLP width 64, and be a"
            r" divisor or a multiple of 4 key/value heads: 1, 2, 4, 8 are",
        ),
        ((1, 1, 8), {"vocab_size": 100}, r"vocabulary 100 .*: 1, 2, 4 are"),
        ((1, 1, 4), {"num_kv_heads": 6}, r"multiple of 6 key/value heads: 1, 2 are"),
        ((1, 1, 8), {"mlp_width": 12}, r"MLP width 12, .*: 1, 2, 4 are"),
        ((1, 5, 1), {}, r"fsdp 5 must divide the model's width 48: 1, 2, 3, .*24, 48"),
    ],
)
def test_a_mesh_that_does_not_divide_the_model(sizes, changes, message):
    with pytest.raises(ValueError, match=message):
        sharding.check_model(sizes, **{**MODEL, **changes})


def test_rows_that_cannot_be_spread():
    sharding.check_multiple("update.rows", [8, 16], 8, "mesh.data x mesh.fsdp")
    with pytest.raises(
        ValueError,
        match=r"update.rows 4 must be a multiple of mesh.data x mesh.fsdp = 8, over"
        r" which its rows are spread: 8, 16, 32 are",
    ):
        sharding.check_multiple("update.rows", [8, 4], 8, "mesh.data x mesh.fsdp")


def test_one_device_is_no_mesh():
    assert mesh_of((1, 1, 1)) is None
    assert sharding.sampling_mesh(None) is None
    assert places_of(None) is None
    x = jnp.ones((2, 3))
    assert sharding.constrain(x, "rows", "vocab") is x
    assert sharding.gather_weight(x, ("embed", "mlp"), num_kv_heads=1) is x


def test_the_sampling_mesh_has_the_devices_in_the_same_order():
    mesh = mesh_of((2, 2, 2))
    local = sharding.sampling_mesh(mesh)
    assert dict(local.shape) == {"data": 4, "fsdp": 1, "tensor": 2}
    assert list(local.devices.flat) == list(mesh.devices.flat)
    assert sharding.row_groups(mesh) == sharding.row_groups(local) == 4


def test_each_parameter_lies_by_the_rules():
    mesh = mesh_of((2, 2, 2))
    places = places_of(mesh)
    specs = jax.tree.map(lambda place: place.spec, places)
    assert specs["embed"] == P("tensor", "fsdp")
    assert specs["head"] == P("fsdp", "tensor")
    assert specs["layers"]["query"] == P(None, "fsdp", "tensor")
    assert specs["layers"]["down"] == P(None, "tensor", "fsdp")
    assert specs["layers"]["key"] == P(None, "fsdp", "tensor")
    assert specs["layers"]["mlp_norm"] == P(None, None)
    sampled = places_of(mesh, sharding.SAMPLING_RULES)
    assert sampled["head"].spec == P(None, "tensor")
    # Eight parts of two key/value heads: keys and values are whole.
    assert places_of(mesh_of((1, 1, 8)))["layers"]["key"].spec == P(None, "fsdp", None)


def test_random_weights_do_not_depend_on_the_mesh():
    expected = weights()
    places = places_of(mesh_of((2, 2, 2)))
    _, params = models.init(CONFIG, jax.random.key(0), shardings=places)
    assert jax.tree.map(lambda x: x.sharding, params) == places
    jax.tree.map(np.testing.assert_array_equal, params, expected)


def test_the_head_of_a_split_vocabulary_sends_little():
    mesh = mesh_of((1, 2, 4))
    model, params = models.init(CONFIG, jax.random.key(0), shardings=places_of(mesh))
    hidden = jnp.zeros((2, 6, CONFIG.width))
    ids = jnp.zeros((2, 5), jnp.int32)

    def loss(params):
        log_probs, entropy = models.target_log_probs(
            model, params, hidden, ids, ids, 1.0, chunk=2
        )
        return log_probs.sum() + entropy.sum()

    with sharding.use(mesh):
        compiled = jax.jit(jax.grad(loss)).lower(params).compile().as_text()
    collective = re.compile(r"= (.*) (all-gather|all-reduce|all-to-all)\(.*")
    found = [
        match for line in compiled.splitlines() if (match := collective.search(line))
    ]
    # The width of the head is brought together, its vocabulary of 64 is not.
    assert any(match[2] == "all-gather" for match in found)
    assert not any("64" in match[1] for match in found)
    # In the loop over chunks only scalars per target are summed, no gradient.
    looped = [match[1] for match in found if "while" in match[0]]
    assert looped
    assert not any("16," in shape for shape in looped)


def test_an_embedding_is_read_where_its_parts_are():
    mesh = mesh_of((1, 1, 8))
    # Ids are spread as the choice of tokens leaves them; the table must not follow.
    ids = jax.ShapeDtypeStruct(
        (8, 8), np.int32, sharding=NamedSharding(mesh, P(None, "tensor"))
    )
    table = jax.ShapeDtypeStruct(
        (64, 16), np.float32, sharding=NamedSharding(mesh, P("tensor", None))
    )
    look_up = jax.jit(lambda table, ids: embed_tokens(table, ids, np.float32))
    with sharding.use(mesh):
        compiled = look_up.lower(table, ids).compile().as_text()
    gathered = re.findall(r"= (\S*) all-gather\(", compiled)
    assert gathered
    assert all(shape.startswith("s32[8,8") for shape in gathered)


def test_constraints_skip_what_the_mesh_does_not_divide():
    with sharding.use(mesh_of((2, 1, 4))):
        split = jax.jit(lambda x: sharding.constrain(x, "rows", ..., "kv_heads", None))
        for shape, part in (((4, 3, 8, 2), (2, 3, 2, 2)), ((3, 6, 2), (3, 6, 2))):
            x = split(np.ones(shape))
            assert x.addressable_shards[0].data.shape == part


def test_rows_are_put_and_read_back():
    rows = {"a": np.arange(16).reshape(8, 2)}
    placed = sharding.put_rows(mesh_of((2, 2, 2)), rows)
    assert placed["a"].sharding.spec == P(("data", "fsdp"))
    np.testing.assert_array_equal(sharding.own_rows(placed["a"]), rows["a"])
    assert sharding.put_rows(None, rows) is rows
