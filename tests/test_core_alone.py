"""The credit kernels and the loss run where there is nothing but jax and numpy."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent

ALONE = """
import importlib.machinery
import sys

NEEDED = {"rlvr_jax", "jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy"}


class OnlyTheNeeded(importlib.machinery.PathFinder):
    # Everything else is not there, as if it had never been installed.
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        root = name.partition(".")[0]
        standard = root in sys.stdlib_module_names or root.startswith("_sysconfig")
        needed = root in NEEDED or standard
        return super().find_spec(name, path, target) if needed else None


builtin = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]
sys.meta_path[:] = [*builtin, OnlyTheNeeded]
import numpy as np

from rlvr_jax import credit, objective, packing, tree

layout = tree.TreeLayout((2, 2))
rewards = np.array([[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]], np.float32)
returns = credit.mars(rewards, layout, np.ones((1, 6), bool), num_turns=2)
assert returns.tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]], returns
grown = tree.empty_tree(
    layout, num_prompts=1, prompt_length=1, response_length=1, feedback_length=0
)
grown.node_mask[:] = True
grown.rewards[:] = rewards
credit.assign(grown, credit.CreditConfig(backup="mers"))
objective.k3(np.zeros(3, np.float32), np.zeros(3, np.float32))
heavy = {"flax", "optax", "transformers", "orbax", "ml_collections", "absl", "torch"}
found = heavy & {name.partition(".")[0] for name in sys.modules}
assert not found, found
print("alone")
"""


def test_credit_and_objective_need_jax_and_numpy_only():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "alone", done.stderr[-2000:]
