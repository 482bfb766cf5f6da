"""Eight fake CPU devices and strict JAX settings for every test."""

import os

# Tests compile many small programs and run each a few times: optimising them costs
# twice the time of the whole suite.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
