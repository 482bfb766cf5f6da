"""SmolLM2-135M-Instruct on MBPP with Murphy: two turns, four attempts each.

bash launch/fetch_smollm2.sh DIR
python -m rlvr_jax.train --config=configs/smollm2_mbpp_murphy.py --workdir=RUN \
    --config.model.path=DIR --config.tasks.source=mbpp.jsonl.gz
"""

from configs import algorithms
from rlvr_jax.config import default_config


def get_config(algorithm: str = "murphy_mars"):
    """Small enough for a laptop's CPU."""
    config = algorithms.apply(default_config(), algorithm)
    config.steps = 2
    config.tasks.max_prompt_tokens = 256
    config.tasks.too_long = "skip"
    config.rollout.prompts = 2
    config.rollout.branching = (4, 4)
    config.rollout.max_response_tokens = 128
    config.rollout.max_feedback_tokens = 128
    config.sampler.contexts = (2, 8)
    config.sampler.chunk = 128
    config.update.rows = 1
    config.update.row_length = 1024
    config.update.target_length = 1024
    config.optimizer.learning_rate = 1e-6
    config.eval.tasks = 32
    config.eval.samples = 1
    config.eval.turns = 2
    config.eval.pass_at = (1,)
    return config
