"""Arrays built in pieces: complete, where they belong, and never more than a piece."""

import math

import jax
import numpy as np
import pytest

from rlvr_jax.models import placement


@pytest.mark.parametrize("most", [1, 4, 40, 90, 100, 10**6])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 10)])
def test_pieces_cover_everything_and_are_alike(shape, most):
    offset = 3
    bounds = tuple((offset, offset + size) for size in shape)
    seen = np.zeros(shape, int)
    shapes = set()
    for piece in placement.pieces(bounds, 4, most):
        seen[tuple(slice(a - offset, b - offset) for a, b in piece)] += 1
        shapes.add(tuple(b - a for a, b in piece))
    assert seen.min() >= 1
    assert len(shapes) == 1
    # One element at least, whatever is asked for; near the bound where it can be.
    size = 4 * math.prod(shapes.pop())
    assert size <= max(most, 4)
    assert size * 4 > min(most, 4 * math.prod(shape))


SHAPE = (4, 16, 24)


@pytest.mark.parametrize(
    "spec", [(), (None, "a"), ("b", None, "a"), (None, ("a", "b"))]
)
@pytest.mark.parametrize("most", [2**30, 1024])
def test_each_device_gets_its_part(spec, most, monkeypatch):
    monkeypatch.setattr(placement, "PIECE_BYTES", most)
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    mesh = jax.make_mesh((2, 4), ("b", "a"), (jax.sharding.AxisType.Auto,) * 2)
    sharding = jax.NamedSharding(mesh, jax.P(*spec))
    read_bytes = []

    def read(bounds):
        part = values[tuple(slice(*pair) for pair in bounds)]
        read_bytes.append(part.nbytes)
        return part

    array = placement.place(SHAPE, values.dtype, sharding, read)
    assert array.sharding == sharding
    np.testing.assert_array_equal(array, values)
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])
    # A piece of each of eight devices is there at once.
    assert max(read_bytes) <= max(most // 8, values.itemsize)
    # What several devices hold is read once, up to the last piece's repetitions.
    assert sum(read_bytes) <= 1.5 * values.nbytes


def test_one_device(monkeypatch):
    monkeypatch.setattr(placement, "PIECE_BYTES", 1000)
    values = np.arange(math.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[3])
    array = placement.place(
        SHAPE, values.dtype, sharding, lambda b: values[tuple(slice(*x) for x in b)]
    )
    assert array.devices() == {jax.devices()[3]}
    np.testing.assert_array_equal(array, values)
