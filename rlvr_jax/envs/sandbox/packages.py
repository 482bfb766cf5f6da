"""Containers that also hold the host's installed packages, pytest among them."""

import os
import sysconfig

from rlvr_jax.envs.sandbox.container import Container
from rlvr_jax.envs.sandbox.pool import Cell, Sandbox

_INSIDE = "/packages"
# Imported once, before any program: children find them ready.
_IMPORTS = "unittest.mock"
_ENVIRONMENT = {
    # More threads than a container may have, for work that is small.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "HOME": "/tmp",
}


def packages_cell(sandbox: Sandbox, *, imports: str = "") -> Cell:
    """Two containers of a sandbox that see the host's packages, read-only.

    Args:
        sandbox: whose wall and limits they have; the caller stops them.
        imports: names of modules that the warm interpreters import, apart by spaces.
    """
    return Cell(_packaged(sandbox, imports), _packaged(sandbox, imports))


def _packaged(sandbox, imports):
    container: Container = sandbox.build()
    folders = {
        os.path.realpath(sysconfig.get_path(name)): None
        for name in ("purelib", "platlib")
    }
    words, path = [], []
    for number, folder in enumerate(folders):
        inside = f"{_INSIDE}/{number}"
        words += ["--ro-bind", folder, inside]
        path.append(inside if sandbox.probe["wall"] != "none" else folder)
    if sandbox.probe["wall"] != "none":
        # After the root is closed no place for them can be made.
        at = container.arguments.index("--remount-ro")
        container.arguments[at:at] = ["--perms", "0755", "--dir", _INSIDE, *words]
    container.environment = {
        **container.environment,
        **_ENVIRONMENT,
        "PYTHONPATH": os.pathsep.join(path),
        "RLVR_IMPORTS": f"{_IMPORTS} {imports}",
    }
    return container
