import collections
import enum
import math
import struct

import pytest

from rlvr_jax.envs.sandbox.codec import (
    MAX_DEPTH,
    CodecError,
    FrameReader,
    decode,
    encode,
    frame,
)

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    127,
    128,
    -128,
    -129,
    1 << 5000,
    -(1 << 64),
    0.1,
    -0.0,
    math.inf,
    2 + 3j,
    "",
    "é\ud800\0",
    b"\0\xff",
    [],
    [1, [2, (3,)]],
    (),
    (1, "a"),
    {1: {2: 3}, "a": [1]},
    frozenset({1}),
    {frozenset({1}): None},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip_is_exact(value):
    copy = decode(encode(value))
    assert copy == value
    assert type(copy) is type(value)
    assert repr(copy) == repr(value)


def test_sets_come_back_whole():
    # Their order, and with it their repr, changes with the seed of the hashes.
    value = {(1, 2), "x", b"", 1.5, None}
    copy = decode(encode(value))
    assert type(copy) is set
    assert sorted(map(repr, copy)) == sorted(map(repr, value))


def test_types_that_compare_equal_stay_apart():
    assert [type(x) for x in decode(encode([1, 1.0, True, 1 + 0j]))] == [
        int,
        float,
        bool,
        complex,
    ]
    assert math.isnan(decode(encode(math.nan)))


class Liar(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class LyingList(list):
    def __eq__(self, other):
        return True

    def __iter__(self):
        return iter([11])

    __hash__ = None


class Color(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Liar(3), 3),
        (LyingList([1, 2]), [1, 2]),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.namedtuple("Point", "x y")(1, 2), (1, 2)),
        (Color.RED, 1),
    ],
    ids=repr,
)
def test_subclasses_become_their_data(value, plain):
    copy = decode(encode(value))
    assert type(copy) is type(plain)
    assert plain.__eq__(copy) is True


@pytest.mark.parametrize("value", [object(), len, int, iter([]), range(3), bytearray()])
def test_other_types_are_refused(value):
    with pytest.raises(CodecError, match="is not plain data"):
        encode(value)


def test_depth_and_size_are_limited():
    nested = []
    for _ in range(MAX_DEPTH + 1):
        nested = [nested]
    with pytest.raises(CodecError, match="nested too deeply"):
        encode(nested)
    loop = []
    loop.append(loop)
    with pytest.raises(CodecError, match="nested too deeply"):
        encode(loop)
    for value in ("x" * 1000, 1 << 10000, [0] * 1000):
        with pytest.raises(CodecError, match="too large"):
            encode(value, max_bytes=500)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"i",
        b"q\0\0\0\0",
        encode([1, 2])[:-1],
        encode(1) + b"x",
        b"l\4\0\0\0" + struct.pack("<I", 1 << 31),
        b"m\4\0\0\0" + struct.pack("<I", 1) + encode([]) + encode(1),
        b"s\1\0\0\0\xff",
        b"d\1\0\0\0\0",
        (b"l\4\0\0\0" + struct.pack("<I", 1)) * (MAX_DEPTH + 2) + encode(1),
    ],
)
def test_broken_bytes_are_one_error(data):
    with pytest.raises(CodecError, match="broken encoding"):
        decode(data)


def test_frames_survive_any_cutting():
    stream = b"".join(frame(value) for value in VALUES)
    for step in (1, 7, len(stream)):
        reader = FrameReader()
        values = []
        for at in range(0, len(stream), step):
            values += reader.feed(stream[at : at + step])
        assert values == VALUES


def test_a_frame_that_claims_too_much_is_refused():
    with pytest.raises(CodecError, match="a frame of 4294967295 bytes is too long"):
        FrameReader().feed(b"\xff" * 8)
