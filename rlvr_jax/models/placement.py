"""Arrays built on their devices piece by piece, so that the host never holds one."""

import functools
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

# Bounds what is on the host at once: a few pieces, in the types of file and model.
PIECE_BYTES = 16 * 2**20

Bounds = tuple[tuple[int, int], ...]


def place(
    shape: tuple[int, ...],
    dtype: np.dtype,
    sharding: jax.sharding.Sharding,
    read: Callable[[Bounds], np.ndarray],
) -> jax.Array:
    """An array of which each device gets its own part, at most `PIECE_BYTES` at a time.

    `jax.make_array_from_callback` wants a whole shard on the host, which for weights
    stacked over layers is most of a model. Here all devices write a piece of theirs in
    one program without communication, so processes need not keep pace.

    Args:
        shape: of the whole array.
        dtype: of the array.
        sharding: where the parts belong; a process reads those of its own devices.
        read: gives the part of the array between bounds (start, end) per axis.

    Returns:
        The array.
    """
    corners = {
        device: [part.indices(size)[0] for part, size in zip(index, shape, strict=True)]
        for device, index in sharding.addressable_devices_indices_map(shape).items()
    }
    local = sharding.shard_shape(shape)

    def part(piece: Bounds) -> jax.Array:
        """The same piece of each device's part, side by side."""
        read_once: dict[Bounds, np.ndarray] = {}
        arrays = []
        for device, corner in corners.items():
            bounds = tuple(
                (start + low, start + high)
                for start, (low, high) in zip(corner, piece, strict=True)
            )
            if bounds not in read_once:
                read_once[bounds] = read(bounds)
            arrays.append(jax.device_put(read_once[bounds], device))
        lengths = [high - low for low, high in piece]
        counts = [size // part for size, part in zip(shape, local, strict=True)]
        whole = tuple(a * b for a, b in zip(lengths, counts, strict=True))
        return jax.make_array_from_single_device_arrays(whole, sharding, arrays)

    everything = tuple((0, size) for size in local)
    most = max(1, PIECE_BYTES // len(corners))
    if math.prod(local) * dtype.itemsize <= most:
        return jax.block_until_ready(part(everything))
    array = zeros(shape, dtype, sharding)
    for piece in pieces(everything, dtype.itemsize, most):
        corner = np.array([low for low, _ in piece], np.int32)
        array = _write(array, part(piece), corner, sharding)
        # Without this, pieces pile up behind the devices.
        jax.block_until_ready(array)
    return array


def zeros(
    shape: tuple[int, ...], dtype: np.dtype, sharding: jax.sharding.Sharding
) -> jax.Array:
    """An array of zeros, born where it belongs."""
    born = jax.jit(lambda: jnp.zeros(shape, dtype), out_shardings=sharding)()
    return jax.block_until_ready(born)


def pieces(bounds: Bounds, itemsize: int, most: int) -> Iterator[Bounds]:
    """Parts of equal shape that cover `bounds`; the last may repeat some of another.

    Args:
        bounds: (start, end) per axis.
        itemsize: bytes of an element.
        most: bytes of a piece; it has at least one element.

    Yields:
        Bounds of each piece.
    """
    lengths = [end - start for start, end in bounds]
    # The first axis along which one step is small enough is cut, those before it into
    # single steps.
    steps = [math.prod(lengths[axis + 1 :]) * itemsize for axis in range(len(lengths))]
    axis = next(i for i, step in enumerate(steps) if step <= max(most, itemsize))
    start, end = bounds[axis]
    size = min(end - start, max(1, most // steps[axis]))
    for outer in np.ndindex(*lengths[:axis]):
        before = [
            (low + i, low + i + 1)
            for (low, _), i in zip(bounds[:axis], outer, strict=True)
        ]
        for low in range(start, end, size):
            low = min(low, end - size)
            yield (*before, (low, low + size), *bounds[axis + 1 :])


@functools.partial(jax.jit, donate_argnums=0, static_argnums=3)
def _write(
    array: jax.Array,
    part: jax.Array,
    corner: jax.Array,
    sharding: jax.sharding.Sharding,
) -> jax.Array:
    """Each device's part of `part` written into its part of `array`."""

    def write(array, part, corner):
        return jax.lax.dynamic_update_slice(array, part, list(corner))

    if isinstance(sharding, jax.NamedSharding):
        spec = sharding.spec
        write = jax.shard_map(
            write,
            mesh=sharding.mesh,
            in_specs=(spec, spec, jax.P()),
            out_specs=spec,
            check_vma=False,
        )
    return write(array, part, corner)
