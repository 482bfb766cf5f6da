r"""SmolLM2-135M-Instruct learns two-digit addition with ReAPO on a CPU.

    bash launch/fetch_smollm2.sh DIR
    python -m rlvr_jax.train --config=configs/smollm2_arithmetic_reapo.py \
        --workdir=RUN --config.model.path=DIR

Seen on 2 CPU cores with much other work beside (load 10 to 20), Python 3.13, jax 0.12:
30 steps in 39 minutes (605 CPU seconds), 6.4 GB. 200 held-out operand pairs, 95 %
intervals over pairs, change paired: greedy accuracy 0.335 [0.269, 0.401] before, 0.665
[0.599, 0.731] after, +0.330 [+0.239, +0.421]; sampled accuracy at temperature 1, two
draws a pair, 0.237 [0.190, 0.285] before, 0.645 [0.584, 0.706] after, 2.7 times. One
seed. docs/real_model.md has the commands, the plot, and what this does not show.

bfloat16 is fast on CPUs with bfloat16 units; others want float32.
"""

from configs import algorithms
from rlvr_jax.config import default_config

OPERATION = "two_digit_addition"


def get_config(algorithm: str = "reapo"):
    """Few prompts, many short attempts, one retry of each that fails."""
    config = algorithms.apply(default_config(), algorithm)
    config.steps = 30
    config.model.dtype = "bfloat16"
    config.model.remat = False
    config.tasks.source = f"arithmetic:{OPERATION}:train"
    config.tasks.eval_source = f"arithmetic:{OPERATION}:heldout"
    config.tasks.max_prompt_tokens = 66
    config.rollout.prompts = 8
    config.rollout.branching = (6, 1)
    config.rollout.max_response_tokens = 12
    config.rollout.max_feedback_tokens = 20
    config.sampler.contexts = (8,)
    config.sampler.chunk = 22
    config.update.rows = 1
    config.update.row_length = 768
    config.update.target_length = 384
    config.update.head_chunk = 128
    config.optimizer.learning_rate = 3e-5
    config.optimizer.schedule = "linear"
    config.optimizer.warmup_steps = 2
    config.checkpoint.every = 15
    config.eval.tasks = 200
    config.eval.samples = 2
    config.eval.pass_at = (1,)
    config.eval.turns = 2
    return config
