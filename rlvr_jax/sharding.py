"""The device mesh, and which logical axis of an array lies on which of its axes.

One mesh serves training: rows of a batch over (`data`, `fsdp`), matrices over `fsdp`
and `tensor`. Sampling has a mesh of the process's own devices and rules of its own:
weights are split over `tensor` alone, so that decoding gathers none.

A mesh of one device is None: nothing is constrained and nothing moves.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")
ROWS = ("data", "fsdp")
REST = -1  # size of an axis: all devices that the others leave

Rules = Mapping[str, str | tuple[str, ...] | None]

# Parameters have the names of `models.logical_axes`; `rows` are packed rows, or the
# contexts of the sampler. A name without a rule is whole on every device.
TRAINING_RULES: Rules = {
    "rows": ROWS,
    "vocab": "tensor",
    "embed": "fsdp",
    "heads": "tensor",
    "kv_heads": "tensor",
    "mlp": "tensor",
}
# Activations too: rows take the axes that split the width of the weights. `branches`
# of a context part for the choice of their tokens alone.
SAMPLING_RULES: Rules = {**TRAINING_RULES, "embed": None, "branches": "tensor"}


def resolve_sizes(
    sizes: Sequence[int], num_devices: int, *, num_processes: int = 1
) -> tuple[int, int, int]:
    """Sizes of data, fsdp and tensor, with -1 replaced by what the others leave.

    Args:
        sizes: 1 or more each; one of them may be -1.
        num_devices: of all processes.
        num_processes: each has the same share of the devices; with more than one
            process no device may be left over, and `tensor` stays inside a process.

    Raises:
        ValueError: a mesh that these devices cannot form; says which they can.

    Example:
        >>> resolve_sizes((1, -1, 2), 8)
        (1, 4, 2)
    """
    written = f"mesh (data, fsdp, tensor) {tuple(sizes)}"
    known = math.prod(size for size in sizes if size != REST)
    if num_devices % known:
        raise ValueError(
            f"{written}: the product {known} must divide the {num_devices} devices:"
            f" {_listed(_divisors(num_devices))} do"
        )
    if num_processes > 1 and REST not in sizes and known != num_devices:
        raise ValueError(
            f"{written}: the product {known} must be all {num_devices} devices of the"
            f" {num_processes} processes: set one of the sizes to -1"
        )
    data, fsdp, tensor = (
        num_devices // known if size == REST else size for size in sizes
    )
    local = num_devices // num_processes
    if num_processes > 1 and local % tensor:
        raise ValueError(
            f"{written}: tensor {tensor} must divide the {local} devices of a process:"
            f" {_listed(_divisors(local))} do"
        )
    return data, fsdp, tensor


def check_model(
    sizes: Sequence[int],
    *,
    num_heads: int,
    num_kv_heads: int,
    vocab_size: int,
    width: int,
    mlp_width: int,
) -> None:
    """Raises ValueError, with the sizes that work, unless the mesh divides the model.

    Key/value heads may be fewer than `tensor`: they are then whole on every device.
    """
    _, fsdp, tensor = sizes

    def works(size: int) -> bool:
        whole = all(n % size == 0 for n in (num_heads, vocab_size, mlp_width))
        return whole and (num_kv_heads % size == 0 or size % num_kv_heads == 0)

    if not works(tensor):
        raise ValueError(
            f"mesh.tensor {tensor} must divide {num_heads} heads, vocabulary"
            f" {vocab_size} and MLP width {mlp_width}, and be a divisor or a multiple"
            f" of {num_kv_heads} key/value heads:"
            f" {_listed(filter(works, _divisors(num_heads)))} are"
        )
    if width % fsdp:
        raise ValueError(
            f"mesh.fsdp {fsdp} must divide the model's width {width}:"
            f" {_listed(_divisors(width))} do"
        )


def check_multiple(name: str, values: Sequence[int], divisor: int, axes: str) -> None:
    """Raises ValueError unless all `values` of a setting can be spread evenly.

    Args:
        name: of the setting.
        values: of it.
        divisor: over how many devices, or groups of them, rows are spread.
        axes: what that number is, in words.
    """
    bad = [value for value in values if value % divisor]
    if bad:
        good = _listed(divisor * k for k in (1, 2, 4))
        raise ValueError(
            f"{name} {bad[0]} must be a multiple of {axes} = {divisor}, over which its"
            f" rows are spread: {good} are"
        )


def make_mesh(sizes: Sequence[int]) -> Mesh | None:
    """The mesh of these sizes over all processes' devices; None for one device.

    With one process JAX chooses the order of the devices (on a TPU along its links),
    and devices may be left over. With several, each holds a block of neighbours.

    Args:
        sizes: from `resolve_sizes`.
    """
    count = math.prod(sizes)
    if jax.process_count() == 1:
        if count == 1:
            return None
        kinds = (AxisType.Auto,) * len(AXES)
        devices = jax.devices()[:count]
        return jax.make_mesh(tuple(sizes), AXES, axis_types=kinds, devices=devices)
    devices = sorted(
        jax.devices(), key=lambda device: (device.process_index, device.id)
    )
    return _mesh(np.array(devices).reshape(sizes), AXES)


def sampling_mesh(mesh: Mesh | None) -> Mesh | None:
    """The mesh of this process's part of `mesh`: all of it in `data`, but `tensor`."""
    if mesh is None or len(mesh.local_devices) == 1:
        return None
    # `local_mesh` keeps the order of the whole, which resharding relies on.
    devices = [d for d in mesh.devices.flat if d.process_index == jax.process_index()]
    tensor = mesh.shape["tensor"]
    return _mesh(np.array(devices).reshape(-1, 1, tensor), AXES)


def row_groups(mesh: Mesh | None) -> int:
    """Over how many groups of devices rows are spread."""
    return 1 if mesh is None else mesh.shape["data"] * mesh.shape["fsdp"]


def spec(names: Sequence[str | None], rules: Rules) -> PartitionSpec:
    """Where an array lies whose axes have these names."""
    return PartitionSpec(*(rules.get(name) if name else None for name in names))


def parameter_shardings(
    mesh: Mesh | None, axes: Any, rules: Rules, *, num_kv_heads: int
) -> Any:
    """A sharding for each parameter, in the structure of `axes`; None without a mesh.

    Args:
        mesh: where they go.
        axes: of `models.logical_axes`.
        rules: `TRAINING_RULES` or `SAMPLING_RULES`.
        num_kv_heads: keys and values are whole unless `tensor` divides their heads.
    """
    if mesh is None:
        return None
    if num_kv_heads % mesh.shape["tensor"]:
        rules = {**rules, "kv_heads": None}
    return jax.tree.map(
        lambda names: NamedSharding(mesh, spec(names, rules)),
        axes,
        is_leaf=lambda names: isinstance(names, tuple),
    )


def whole(mesh: Mesh) -> NamedSharding:
    """The same array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def row_sharding(mesh: Mesh) -> NamedSharding:
    """Rows, on the first axis, over `data` and `fsdp`."""
    return NamedSharding(mesh, PartitionSpec(ROWS))


def put_rows(mesh: Mesh | None, rows: Any) -> Any:
    """This process's rows as its part of global arrays; as they are without a mesh.

    Args:
        mesh: of the training.
        rows: pytree of arrays [R / processes, ...]; the same shapes in each process.
    """
    if mesh is None:
        return rows
    where = row_sharding(mesh)
    return jax.tree.map(
        lambda x: jax.make_array_from_process_local_data(where, np.asarray(x)), rows
    )


def own_rows(array: jax.Array) -> np.ndarray:
    """The rows of a global array that this process put there, on the host."""
    if array.is_fully_addressable:
        return np.asarray(array)
    # Devices along `tensor` hold the same rows.
    parts = {
        shard.index[0].start or 0: shard.data for shard in array.addressable_shards
    }
    return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)])


def use(mesh: Mesh | None) -> contextlib.AbstractContextManager[Any]:
    """Within it, `constrain` speaks of `mesh`; nothing without one."""
    return contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh)


def constrain(x: jax.Array, *names: Any) -> jax.Array:
    """`x` laid out by its axes' names on the mesh in use; `x` itself without one.

    An axis that its part of the mesh does not divide stays whole.

    Args:
        x: an activation.
        names: per axis a name of `SAMPLING_RULES` or None; `...` stands for any number
            of None.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    if ... in names:
        here = names.index(...)
        more = x.ndim - len(names) + 1
        names = names[:here] + (None,) * more + names[here + 1 :]
    places = []
    for name, size in zip(names, x.shape, strict=True):
        axes = _axes(SAMPLING_RULES[name] if name else None)
        # Within `over_rows` rows are already the group's own.
        axes = tuple(axis for axis in axes if axis not in mesh.manual_axes)
        divides = size % math.prod(mesh.shape[axis] for axis in axes) == 0
        places.append(axes if axes and divides else None)
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*places))


def gather_weight(
    weight: jax.Array, names: Sequence[str], *, num_kv_heads: int
) -> jax.Array:
    """A weight as it is used: whole but for `tensor`; itself without a mesh.

    Its gradient is spread over `fsdp` at once: a sum of whole gradients would need the
    memory of all of them on each device.

    Args:
        weight: of one layer, laid out by `TRAINING_RULES`.
        names: of its axes, see `models.logical_axes`.
        num_kv_heads: as of `parameter_shardings`.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return weight
    own = {} if num_kv_heads % mesh.shape["tensor"] == 0 else {"kv_heads": None}
    used = spec(names, {**SAMPLING_RULES, **own})
    return _gather(weight, used, spec(names, {**TRAINING_RULES, **own}))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gather(weight: jax.Array, used: PartitionSpec, kept: PartitionSpec) -> jax.Array:
    return jax.lax.with_sharding_constraint(weight, used)


def _gather_forward(weight, used, kept):
    return _gather(weight, used, kept), None


def _gather_backward(used, kept, residuals, grad):
    return (jax.lax.with_sharding_constraint(grad, kept),)


_gather.defvjp(_gather_forward, _gather_backward)


def is_split(name: str) -> bool:
    """Whether the mesh in use, if any, splits the axis of this name."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return False
    return math.prod(mesh.shape[axis] for axis in _axes(SAMPLING_RULES[name])) > 1


def over_rows(function: Callable[..., Any], whole: Any, *rows: Any) -> Any:
    """`function(whole, *rows)`, by each group of devices on its own rows.

    The gradient of `whole` is summed over the groups once, when `function` is done: a
    loop in it would else be compiled to a sum over all devices at every turn.

    Args:
        function: whose results have rows on their first axis.
        whole: pytree that each group has whole, but for `tensor`.
        rows: arrays with rows on their first axis.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.shape["data"] * mesh.shape["fsdp"] == 1:
        return function(whole, *rows)
    own = PartitionSpec(ROWS)

    def of_group(whole: Any, *rows: Any) -> Any:
        # From here on each group has its own; the way back is the sum over groups.
        return function(jax.lax.pcast(whole, ROWS, to="varying"), *rows)

    mapped = jax.shard_map(
        of_group,
        in_specs=(PartitionSpec(), *(own for _ in rows)),
        out_specs=own,
        axis_names=set(ROWS),
    )
    return mapped(whole, *rows)


def handout_mesh(mesh: Mesh) -> Mesh:
    """The devices of `mesh` as one sampling mesh per process, axis `process` first."""
    tensor = mesh.shape["tensor"]
    shape = (jax.process_count(), -1, 1, tensor)
    return _mesh(mesh.devices.reshape(shape), ("process", *AXES))


def to_local(array: jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
    """What this process holds of a global array that every process holds whole."""
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)


def _mesh(devices: np.ndarray, names: tuple[str, ...]) -> Mesh:
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names))


def _axes(place: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (place,) if isinstance(place, str) else place or ()


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _listed(numbers: Any) -> str:
    numbers = [str(number) for number in numbers]
    return ", ".join(numbers if len(numbers) < 12 else [*numbers[:10], "..."])
