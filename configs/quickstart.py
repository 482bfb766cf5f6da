"""Minutes on a laptop: the shipped model on generated programs.

bash launch/quickstart.sh [algorithm]
"""

from configs import algorithms
from rlvr_jax.config import default_config

BRANCHING = {
    "grpo": (16,),
    "reapo": (8, 1),
    "murphy_mars": (8, 2),
    "murphy_mers": (8, 2),
}


def get_config(algorithm: str = "murphy_mars"):
    """The quickstart with one of the presets."""
    config = algorithms.apply(default_config(), algorithm)
    config.rollout.branching = BRANCHING[algorithm]
    config.steps = 55
    config.model.unroll = 4
    config.model.remat = False
    config.tasks.max_prompt_tokens = 48
    config.rollout.prompts = 32
    config.rollout.max_response_tokens = 20
    config.rollout.max_feedback_tokens = 32
    config.sampler.contexts = (32,)
    config.sampler.chunk = 24
    config.update.rows = 4
    config.update.row_length = 384
    config.update.target_length = 384
    config.objective.reduction = "token"
    config.optimizer.learning_rate = 3e-4
    config.optimizer.schedule = "linear"
    config.checkpoint.rollouts_every = 5
    config.eval.tasks = 500
    return config
