"""Minutes on a laptop: the shipped model on generated programs.

    bash launch/quickstart.sh [algorithm]

Seen on 2 CPU cores, Python 3.11, one run each, 500 held-out tasks, 4 chains each, 95 %
intervals. murphy_mars: pass@1 0.228 -> 0.294, +0.067 [0.047, 0.086]; Iter-3 +0.053
[0.031, 0.076]; 55 steps in 284 s. reapo: pass@1 0.319, +0.091 [0.069, 0.113]; Iter-3
+0.050 [0.027, 0.072].

Every token counts alike here (`reduction="token"`) unless other weights are part of the
algorithm itself (`OWN_REDUCTION`). The presets of Murphy count groups alike, in which
the many small groups of retries outweigh the first attempts. One run of 50 steps with
that reduction and a learning rate of 1e-3 went from 0.26 to 0.28 solved first attempts
in training; which of the two settings held it back was not told apart.
"""

from configs import algorithms
from rlvr_jax.config import default_config

# A laptop's share of each kind of tree: groups, chains of two attempts, branches.
BRANCHING = {(16,): (16,), (16, 1): (8, 1), (8, 8): (8, 2)}
OWN_REDUCTION = ("dr_grpo", "gspo", "rloo", "maxrl", "score")


def get_config(algorithm: str = "murphy_mars"):
    """The quickstart with one of the presets."""
    config = algorithms.apply(default_config(), algorithm)
    config.rollout.branching = BRANCHING[config.rollout.branching]
    config.steps = 60
    config.model.unroll = 4
    config.model.remat = False
    config.tasks.max_prompt_tokens = 40
    config.rollout.prompts = 32
    config.rollout.max_response_tokens = 20
    config.rollout.max_feedback_tokens = 32
    config.sampler.contexts = (32,)
    config.sampler.chunk = 24
    config.update.rows = 4
    config.update.row_length = 384
    config.update.target_length = 384
    if algorithm not in OWN_REDUCTION:
        config.objective.reduction = "token"
    if config.rollout.feedback:
        config.rollout.feedback = "check it"  # a character is a token here
    config.optimizer.learning_rate = 6e-4
    config.optimizer.schedule = "linear"
    config.checkpoint.rollouts_every = 5
    config.eval.tasks = 500
    return config
