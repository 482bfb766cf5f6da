"""Sampling: prefill once per context, branch, decode, extend to the next turn."""

from rlvr_jax.sampling.buckets import Buckets
from rlvr_jax.sampling.sampler import Sampler, Samples

__all__ = ["Buckets", "Sampler", "Samples"]
