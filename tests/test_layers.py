"""Who may import whom: the layers of the package, and outside packages' owners."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "rlvr_jax"

# A module imports strictly lower layers, or its own folder.
LAYERS = {
    "tree": 0,
    "objective": 0,
    "credit": 1,
    "metrics": 1,
    "sharding": 1,
    "checkpoint": 1,
    "distributed": 1,
    "tasks": 1,
    # The configuration nests credit's own.
    "config": 2,
    "packing": 2,
    "models": 2,
    "envs": 2,
    "sampling": 3,
    "rollout": 4,
    "evaluation": 5,
    "training": 6,
    "command_line": 7,
    "report": 8,
    "train": 8,
    "pretrain": 8,
    "evaluate": 8,
    "export": 8,
    "compile_check": 8,
}
WITHOUT_JAX = ("tasks", "envs")
OWNERS = {
    "transformers": ("tasks/",),
    "tokenizers": ("tasks/", "models/gguf"),
    "orbax": ("checkpoint.py",),
    "ml_collections": ("config/parsing.py",),
    "optax": ("training/",),
    "flax": ("models/",),
    "safetensors": ("models/",),
    "pyarrow": ("tasks/readers.py",),
    "reasoning_gym": ("tasks/reasoning.py",),
    "absl": ("config/parsing.py", "command_line.py", *(f"{n}.py" for n in LAYERS)),
}
PURE = ("tree", "objective", "credit", "packing")
PURE_IMPORTS = {"jax", "numpy", "rlvr_jax"}
STANDARD = {
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "operator",
    "typing",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path):
    """`credit` of rlvr_jax/credit/backups.py, `tree` of rlvr_jax/tree.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Dotted names of everything that a module imports, in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            # `from rlvr_jax import tree` imports rlvr_jax.tree.
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_lower_layers_only(path):
    own = part_of(path)
    names = [name.split(".") for name in imports_of(path)]
    parts = {name[1] for name in names if name[0] == "rlvr_jax"}
    if own == "__init__":
        assert not names
        return
    unknown = ({own} | parts) - LAYERS.keys()
    assert not unknown, f"no layer is named for {unknown}"
    upward = [part for part in parts - {own} if LAYERS[part] >= LAYERS[own]]
    assert not upward, f"layer {LAYERS[own]} imports {upward}"


@pytest.mark.parametrize("part", WITHOUT_JAX)
def test_a_part_without_jax(part):
    files = sorted((PACKAGE / part).rglob("*.py"))
    roots = {name.split(".")[0] for path in files for name in imports_of(path)}
    assert "json" in roots or "dataclasses" in roots
    assert not roots & {"jax", "jaxlib", "flax", "optax", "orbax"}


@pytest.mark.parametrize("package", OWNERS)
def test_an_outside_package_has_its_owners(package):
    using = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if package in {name.split(".")[0] for name in imports_of(path)}
    }
    assert using, f"nobody imports {package}: is its name right?"
    foreign = [name for name in using if not name.startswith(OWNERS[package])]
    assert foreign == []


@pytest.mark.parametrize("part", PURE)
def test_the_core_imports_jax_and_numpy_and_no_files_or_clocks(part):
    files = [path for path in MODULES if part_of(path) == part]
    roots = {name.split(".")[0] for path in files for name in imports_of(path)}
    assert roots - PURE_IMPORTS - STANDARD == set()


def test_tasks_and_verifiers_run_without_jax_in_the_process():
    # Workers and tools import them alone; ast does not see what a package pulls in.

    code = "import sys; from rlvr_jax import envs, tasks; print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
