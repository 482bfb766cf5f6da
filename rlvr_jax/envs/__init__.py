"""Verifiers: they grade responses and write the feedback that the policy reads.

with envs.make_verifier("programs", workers=2) as verifier:
    verdicts = verifier.verify([(task, response), ...])
"""

from rlvr_jax.envs.arithmetic import ArithmeticVerifier
from rlvr_jax.envs.code import CodeVerifier
from rlvr_jax.envs.functions import FunctionError, FunctionVerifier
from rlvr_jax.envs.golds import GoldReport, self_check
from rlvr_jax.envs.math import MathVerifier
from rlvr_jax.envs.programs import ProgramsVerifier
from rlvr_jax.envs.reference import self_test
from rlvr_jax.envs.sandbox import Limits
from rlvr_jax.envs.verdict import STATUSES, Verdict
from rlvr_jax.envs.verifier import Verifier

__all__ = [
    "SANDBOXED",
    "STATUSES",
    "FunctionError",
    "GoldReport",
    "Limits",
    "Verdict",
    "Verifier",
    "make_verifier",
    "self_check",
    "self_test",
]

_VERIFIERS = {
    "arithmetic": ArithmeticVerifier,
    "code": CodeVerifier,
    "function": FunctionVerifier,
    "math": MathVerifier,
    "programs": ProgramsVerifier,
}

# Kinds whose answers are programs: they take the settings of `sandbox.Sandbox`.
SANDBOXED = ("code", "programs")


def make_verifier(name: str, **settings: object) -> Verifier:
    """A verifier, ready to grade; close it, or use it in a `with`.

    Args:
        name: "math" (final answers), "code" (unit tests), "programs" (pairs),
            "arithmetic" (a bare number) or "function" (your own).
        settings: arguments of that verifier's class.

    Raises:
        ValueError: no verifier has this name.
        SandboxError: the host has no wall for untrusted programs.
    """
    if name not in _VERIFIERS:
        known = ", ".join(sorted(_VERIFIERS))
        raise ValueError(f"verifier must be one of {known}, got {name!r}")
    return _VERIFIERS[name](**settings)
