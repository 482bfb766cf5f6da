"""Names of TPU slices: what is refused, and what a device's share is."""

import types

import pytest
from jax.experimental import topologies as jax_topologies

from rlvr_jax.capacity import topologies
from rlvr_jax.capacity.chips import CHIPS


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What is set for libtpu is gone after the test."""
    for name in topologies.OFFLINE:
        monkeypatch.setenv(name, "set before")


@pytest.fixture
def libtpu(monkeypatch):
    """A compiler that knows every slice: two devices per chip, two chips per host."""

    def describe(platform, topology_name):
        assert platform == "tpu"
        devices = [types.SimpleNamespace(process_index=i // 4) for i in range(16)]
        return types.SimpleNamespace(devices=devices)

    monkeypatch.setattr(jax_topologies, "get_topology_desc", describe)


def test_devices_of_a_chip_share_its_peaks(libtpu):
    found = topologies.load_topology("tpu7x:2x2x2")
    assert (found.num_chips, found.per_chip, found.num_processes) == (8, 2, 4)
    assert found.chip is CHIPS["tpu7x"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v9:2x2", r"one of v4, v5e, v5p, v6e, tpu7x, .*got 'v9'"),
        ("v5litepod-8", r"for example v5e:8x8; got 'v5litepod-8'"),
        ("v5e:8", r"v5e slice has 2 sizes; valid are v5e:2x2, v5e:2x4, .*16x16"),
        ("v5e:2x2x4", r"v5e slice has 2 sizes"),
        ("v5p:4x4", r"v5p slice has 3 sizes; valid are v5p:2x2x1"),
        ("v5e:8x-8", r"has 2 sizes"),
        ("v5e:32x16", r"4 to 256 chips; got 512; valid are v5e:2x2"),
        ("v5e:1x1", r"4 to 256 chips; got 1"),
    ],
)
def test_a_name_that_is_no_slice(libtpu, name, message):
    with pytest.raises(ValueError, match=message):
        topologies.load_topology(name)


def test_a_slice_that_the_compiler_refuses(monkeypatch):
    def describe(**names):
        raise RuntimeError("INVALID_ARGUMENT: 3x3 is not divisible by 2x2x1")

    monkeypatch.setattr(jax_topologies, "get_topology_desc", describe)
    with pytest.raises(ValueError, match=r"v5e:3x3': 3x3 is not divisible.*v5e:4x4"):
        topologies.load_topology("v5e:3x3")


def test_a_host_without_the_compiler(monkeypatch):
    def describe(**names):
        raise RuntimeError("NOT_FOUND: no library")

    monkeypatch.setattr(jax_topologies, "get_topology_desc", describe)
    with pytest.raises(ValueError, match=r"needs libtpu.*pip install libtpu.*no lib"):
        topologies.load_topology("v5e:2x4")


def test_peaks_are_in_the_published_order():
    # Guards against a slip of units: each generation is within 30 times the first.
    for name in ("flops", "memory", "memory_bandwidth", "link_bandwidth"):
        values = [getattr(chip, name) for chip in CHIPS.values()]
        assert max(values) < 30 * min(values), name
    assert CHIPS["v5e"].flops / CHIPS["v5e"].memory_bandwidth == pytest.approx(
        240, 0.01
    )
