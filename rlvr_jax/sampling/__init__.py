"""Sampling: prefill once per context, branch, decode, extend to the next turn."""

from rlvr_jax.sampling.buckets import Buckets
from rlvr_jax.sampling.caches import context_bytes
from rlvr_jax.sampling.lowering import lower
from rlvr_jax.sampling.sampler import Sampler, Samples
from rlvr_jax.sampling.warmup import warm_up

__all__ = ["Buckets", "Sampler", "Samples", "context_bytes", "lower", "warm_up"]
