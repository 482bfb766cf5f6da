"""Memory and time of loading and saving a synthetic checkpoint of 2 GB.

    python -m tests.benchmarks.load [--gigabytes=2] [--directory=DIR]

Random bfloat16 weights of the Llama family in several files are written into a new
folder below DIR (default: the system's). A fresh process for each number of fake CPU
devices, 8 and 1, loads them as float32 (fsdp-like: the axis "embed" is split) and saves
them as bfloat16; then all is removed. Every few milliseconds a thread reads
/proc/self/smaps_rollup (Linux): resident anonymous memory, that is without file-backed
pages. The last column is what matters: its peak minus the bytes of the weights' buffers
at that time: pieces, the interpreter and JAX.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

LOAD = "--load"


def config_of(gigabytes: float):
    """A decoder whose bfloat16 weights take about so much."""
    from rlvr_jax import models

    layers = max(1, round(gigabytes * 7.7))
    return models.ModelConfig(
        family="llama",
        vocab_size=16000,
        width=2048,
        num_layers=layers,
        num_heads=32,
        num_kv_heads=8,
        head_dim=64,
        mlp_width=8192,
    )


def write_checkpoint(directory: pathlib.Path, gigabytes: float) -> int:
    """Random weights in files of at most 500 MB; returns their bytes."""
    import numpy as np

    from rlvr_jax.models import tensor_files, weights

    config = config_of(gigabytes)
    shapes = {
        name: tensor_files.stored_shape(entry)
        for name, entry in tensor_files.stored_parameters(config).items()
    }
    sizes = {name: 2 * int(np.prod(shape)) for name, shape in shapes.items()}
    block = np.random.default_rng(0).normal(size=1 << 20).astype(np.float32)

    def read(name: str) -> np.ndarray:
        return np.resize(block, shapes[name])

    files = weights.split_files(sizes, 500 * 10**6)
    for file, names in files.items():
        chosen = {name: shapes[name] for name in names}
        tensor_files.write_tensors(directory / file, chosen, "bfloat16", read)
    index = {"weight_map": {n: file for file, names in files.items() for n in names}}
    (directory / tensor_files.INDEX_FILE).write_text(json.dumps(index))
    (directory / "config.json").write_text(json.dumps(config.to_hf()))
    return sum(sizes.values())


def anonymous() -> int:
    """Bytes of resident memory that no file backs."""
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/self/smaps_rollup has no line 'Anonymous'")


class Watch(threading.Thread):
    """Samples memory until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.making = threading.Lock()
        self.peak = self.excess = self.held = 0

    def run(self) -> None:
        while not self.done.wait(0.005):
            with self.making:
                now, held = anonymous(), self.held
            self.peak = max(self.peak, now)
            self.excess = max(self.excess, now - held)

    def follow(self, placement, weights) -> None:
        """Counts weights as held as soon as their buffers are there.

        `jax.live_arrays` does not know a buffer while a program writes it.
        """
        zeros, place = placement.zeros, placement.place

        def counted_zeros(*arguments):
            with self.making:
                array = zeros(*arguments)
                self.held += bytes_of(array)
                return array

        def counted_place(*arguments):
            before = self.held
            array = place(*arguments)
            if self.held == before:
                self.held += bytes_of(array)
            return array

        placement.zeros, placement.place = counted_zeros, counted_place
        weights.place = counted_place


def bytes_of(array) -> int:
    """Bytes on all devices: a replicated array counts once for each."""
    return sum(shard.data.nbytes for shard in array.addressable_shards)


def load(directory: str) -> None:
    """Load in this process and print the numbers."""
    import jax

    from rlvr_jax import models
    from rlvr_jax.models import placement, weights

    config = models.ModelConfig.from_directory(directory)
    mesh = jax.make_mesh(
        (jax.device_count(),), ("fsdp",), (jax.sharding.AxisType.Auto,)
    )

    def where(names: tuple[str, ...]) -> jax.NamedSharding:
        spec = jax.P(*("fsdp" if name == "embed" else None for name in names))
        return jax.NamedSharding(mesh, spec)

    axes = models.logical_axes(config)
    shardings = jax.tree.map(where, axes, is_leaf=lambda x: isinstance(x, tuple))
    jax.device_put(1.0).block_until_ready()
    before = anonymous()
    watch = Watch()
    watch.follow(placement, weights)
    watch.start()
    begin, busy = time.perf_counter(), time.process_time()
    model, params = models.load(directory, shardings=shardings)
    jax.block_until_ready(params)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    watch.done.set()
    watch.join()
    held = sum(x.nbytes for x in jax.tree.leaves(params))
    row("load", seconds, busy, before, held, watch)

    before, watch = anonymous(), Watch()
    watch.held = sum(bytes_of(x) for x in jax.tree.leaves(params))
    watch.start()
    begin, busy = time.perf_counter(), time.process_time()
    models.save(f"{directory}/saved", model, params, dtype="bfloat16")
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    watch.done.set()
    watch.join()
    row("save", seconds, busy, before, held, watch)


def row(what: str, seconds: float, busy: float, before: int, held: int, watch) -> None:
    """One line of the table."""
    import jax

    sizes = (before, held, watch.peak, watch.excess)
    print(
        f"{what}{jax.device_count():8d}{seconds:9.1f}{busy:9.1f}"
        + "".join(f"{size / 1e6:11.0f}" for size in sizes)
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--directory", default=None)
    parser.add_argument(LOAD, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        load(options.load)
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        size = write_checkpoint(pathlib.Path(folder), options.gigabytes)
        files = len(list(pathlib.Path(folder).glob("*.safetensors")))
        print(f"{size / 1e9:.2f} GB of bfloat16 in {files} files, loaded as float32")
        titles = ("before", "weights", "peak", "excess")
        print(f"{'megabytes:':30s}" + "".join(f"{title:>11s}" for title in titles))
        print("     devices  seconds      CPU")
        for devices in (8, 1):
            flags = f"--xla_force_host_platform_device_count={devices}"
            subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.load", LOAD, folder],
                env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
                check=True,
            )


if __name__ == "__main__":
    main()
