"""Minutes on a laptop: the shipped model on generated programs.

    bash launch/quickstart.sh [algorithm]

Seen on 2 CPU cores, Python 3.11, 500 held-out tasks, 4 chains each, 95 % intervals,
from a base at pass@1 0.193 [0.172, 0.214] and Iter-3 0.401. murphy_mars, three seeds:
pass@1 +0.147 [0.122, 0.173], +0.166 [0.139, 0.192], +0.167 [0.140, 0.193]; Iter-3
+0.079, +0.076, +0.066. reapo: pass@1 +0.214 [0.184, 0.244], Iter-3 +0.070. grpo: pass@1
+0.218 [0.186, 0.251], Iter-3 +0.065. 60 steps take three minutes.

Every token counts alike here (`reduction="token"`) unless other weights are part of the
algorithm itself (`OWN_REDUCTION`). The presets of Murphy count groups alike, in which
the many small groups of retries outweigh the first attempts.
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
