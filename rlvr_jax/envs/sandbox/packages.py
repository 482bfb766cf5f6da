"""Containers that also hold the host's installed packages, pytest among them."""

import importlib.util
import os
import pkgutil
import sysconfig

from rlvr_jax.envs.sandbox.container import Container
from rlvr_jax.envs.sandbox.pool import Cell, Sandbox

_INSIDE = "/packages"
_ENVIRONMENT = {
    # More threads than a container may have, for work that is small.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "HOME": "/tmp",
}


def packages_cell(sandbox: Sandbox) -> Cell:
    """Two containers of a sandbox that see the host's packages, read-only.

    Their warm interpreters have imported unittest and, where the host has it, pytest.

    Args:
        sandbox: whose wall and limits they have; the caller stops them.
    """
    return Cell(_packaged(sandbox), _packaged(sandbox))


def has_pytest() -> bool:
    """Whether the host has pytest, and so the containers."""
    return importlib.util.find_spec("_pytest") is not None


def _imports():
    """What children find ready: pytest imports its parts one by one, and slowly."""
    if not has_pytest():
        return ["unittest.mock"]
    places = importlib.util.find_spec("_pytest").submodule_search_locations
    parts = [module.name for module in pkgutil.iter_modules(places)]
    return ["unittest.mock", "pytest", *(f"_pytest.{part}" for part in parts)]


def _packaged(sandbox):
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
        "RLVR_IMPORTS": " ".join(_imports()),
    }
    return container
