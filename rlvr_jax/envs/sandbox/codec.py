"""Data-only codec: plain Python values as bytes, exactly and without code.

Both sides of the wall run this module, so it imports the standard library only.
"""

import struct

MAX_DEPTH = 100
MAX_BYTES = 4 << 20

_SEQUENCES = ((list, b"l"), (tuple, b"u"), (set, b"e"), (frozenset, b"z"))


class CodecError(ValueError):
    """A value or a byte string that the codec does not carry."""


def encode(value: object, *, max_bytes: int = MAX_BYTES) -> bytes:
    """One plain value as bytes.

    Args:
        value: None, bool, int, float, complex, str, bytes, list, tuple, dict, set or
            frozenset, nested at most MAX_DEPTH deep. An instance of a subclass (a
            Counter, a namedtuple) is carried as its plain base: its data, never its
            behaviour.
        max_bytes: largest encoding, in bytes.

    Returns:
        The encoding; equal encodings mean equal values of equal types.

    Raises:
        CodecError: the value is of another type, too deep or too large.
    """
    parts = []
    _Encoder(parts, max_bytes).write(value, 0)
    return b"".join(parts)


class _Encoder:
    def __init__(self, parts, room):
        self.parts = parts
        self.room = room

    def emit(self, tag, body=b""):
        self.room -= len(body) + 5
        if self.room < 0:
            raise CodecError("the value is too large")
        if body:
            self.parts.append(tag + struct.pack("<I", len(body)) + body)
        else:
            self.parts.append(tag + b"\0\0\0\0")

    def write(self, value, depth):
        if depth > MAX_DEPTH:
            raise CodecError("the value is nested too deeply")
        # type() cannot be overridden by the value, isinstance can: __class__ lies.
        kind = type(value)
        if value is None:
            self.emit(b"n")
        elif kind is bool:
            self.emit(b"t" if value else b"f")
        elif issubclass(kind, int):
            size = int.bit_length(value) // 8 + 1
            if size > self.room:
                raise CodecError("the value is too large")
            self.emit(b"i", int.to_bytes(value, size, "little", signed=True))
        elif issubclass(kind, float):
            self.emit(b"d", struct.pack("<d", float.__float__(value)))
        elif issubclass(kind, str):
            self.emit(b"s", str.encode(value, "utf-8", "surrogatepass"))
        elif issubclass(kind, bytes):
            self.emit(b"b", bytes.__getitem__(value, slice(None)))
        elif issubclass(kind, complex):
            real, imag = complex.__getnewargs__(value)
            self.emit(b"c", struct.pack("<dd", real, imag))
        elif issubclass(kind, dict):
            items = list(dict.items(value))
            self.emit(b"m", struct.pack("<I", len(items)))
            for key, item in items:
                self.write(key, depth + 1)
                self.write(item, depth + 1)
        else:
            self.sequence(value, kind, depth)

    def sequence(self, value, kind, depth):
        for base, tag in _SEQUENCES:
            if issubclass(kind, base):
                items = list(base.__iter__(value))
                self.emit(tag, struct.pack("<I", len(items)))
                for item in items:
                    self.write(item, depth + 1)
                return
        raise CodecError(f"a value of type {kind.__name__} is not plain data")


def decode(data: bytes) -> object:
    """The value that `encode` wrote.

    Args:
        data: one encoding, from a source that need not be trusted.

    Returns:
        The value, made of exact built-in types.

    Raises:
        CodecError: the bytes are not exactly one encoding.
    """
    try:
        value, end = _read(data, 0, 0)
    except (struct.error, UnicodeDecodeError, TypeError, IndexError) as error:
        raise CodecError(f"broken encoding: {error}") from None
    if end != len(data):
        raise CodecError("broken encoding: bytes after the value")
    return value


def _read(data, at, depth):
    if depth > MAX_DEPTH:
        raise CodecError("broken encoding: nested too deeply")
    tag = data[at : at + 1]
    (size,) = struct.unpack_from("<I", data, at + 1)
    start, at = at + 5, at + 5 + size
    if at > len(data):
        raise CodecError("broken encoding: cut short")
    body = data[start:at]
    if tag in b"luezm":
        (count,) = struct.unpack("<I", body)
        # Each item takes five bytes at least: a lying count cannot make us allocate.
        if count * 5 > len(data) - at:
            raise CodecError("broken encoding: cut short")
        return _read_items(data, at, depth, tag, count)
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag == b"i":
        return int.from_bytes(body, "little", signed=True), at
    if tag == b"d":
        return struct.unpack("<d", body)[0], at
    if tag == b"s":
        return body.decode("utf-8", "surrogatepass"), at
    if tag == b"b":
        return bytes(body), at
    if tag == b"c":
        return complex(*struct.unpack("<dd", body)), at
    raise CodecError(f"broken encoding: tag {tag!r}")


_CONSTANTS = {b"n": None, b"t": True, b"f": False}


def _read_items(data, at, depth, tag, count):
    if tag == b"m":
        result = {}
        for _ in range(count):
            key, at = _read(data, at, depth + 1)
            result[key], at = _read(data, at, depth + 1)
        return result, at
    items = []
    for _ in range(count):
        item, at = _read(data, at, depth + 1)
        items.append(item)
    for base, base_tag in _SEQUENCES:
        if tag == base_tag:
            return (items if base is list else base(items)), at
    raise CodecError(f"broken encoding: tag {tag!r}")


def frame(value: object) -> bytes:
    """`value` encoded, with its length in front (4 bytes, little endian)."""
    body = encode(value)
    return struct.pack("<I", len(body)) + body


class FrameReader:
    """Cuts a byte stream into the frames of `frame`.

    Args:
        max_bytes: longest frame that is accepted.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self.buffer = bytearray()
        self.max_bytes = max_bytes

    def feed(self, data: bytes) -> list:
        """Adds `data`; returns the values of the frames that are now complete."""
        self.buffer += data
        values = []
        at = 0
        while len(self.buffer) - at >= 4:
            (size,) = struct.unpack_from("<I", self.buffer, at)
            if size > self.max_bytes:
                raise CodecError(f"a frame of {size} bytes is too long")
            if len(self.buffer) - at - 4 < size:
                break
            values.append(decode(bytes(self.buffer[at + 4 : at + 4 + size])))
            at += 4 + size
        del self.buffer[:at]
        return values
