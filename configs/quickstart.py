"""Minutes on a laptop: the shipped 1 M parameter model on generated programs."""

from configs import algorithms
from rlvr_jax.config import default_config


def get_config(algorithm: str = "murphy_mars"):
    """The quickstart with one of the presets."""
    config = default_config()
    config.steps = 60
    config.rollout.prompts = 32
    config.eval.tasks = 500
    config.optimizer.learning_rate = 3e-4
    return algorithms.apply(config, algorithm)
