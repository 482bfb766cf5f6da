"""Whether a run fits a TPU slice: its programs compiled, and what they need."""

from rlvr_jax.capacity.check import check_capacity, model_shapes
from rlvr_jax.capacity.report import Report
from rlvr_jax.capacity.topologies import Topology, load_topology

__all__ = ["Report", "Topology", "check_capacity", "load_topology", "model_shapes"]
