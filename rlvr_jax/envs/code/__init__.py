"""Verifier of code: asserts, methods, whole programs, unittest and pytest."""

from rlvr_jax.envs.code.sources import (
    HIDDEN_FEEDBACK,
    NO_CODE_FEEDBACK,
    PASSED_FEEDBACK,
)
from rlvr_jax.envs.code.verifier import CodeVerifier

__all__ = ["HIDDEN_FEEDBACK", "NO_CODE_FEEDBACK", "PASSED_FEEDBACK", "CodeVerifier"]
