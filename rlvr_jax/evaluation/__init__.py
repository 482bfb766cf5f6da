"""pass@k, Iter-k and Ver@K with intervals; whether feedback is used."""

from rlvr_jax.evaluation.controls import feedback_controls
from rlvr_jax.evaluation.estimates import mean_interval, pass_at_k
from rlvr_jax.evaluation.iterations import evaluate
from rlvr_jax.evaluation.tables import table

__all__ = ["evaluate", "feedback_controls", "mean_interval", "pass_at_k", "table"]
