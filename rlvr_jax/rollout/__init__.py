"""The multi-turn loop: sample, verify, give feedback, branch; a tree comes out."""

from rlvr_jax.rollout.loop import rollout
from rlvr_jax.rollout.records import Limits, Rollout, Verify

__all__ = ["Limits", "Rollout", "Verify", "rollout"]
