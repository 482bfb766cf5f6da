"""The small base model that the package ships: how it is made, and what it is.

    python -m rlvr_jax.pretrain --config=configs/tiny_base.py --output=HF_DIR

It imitates demonstrations of program synthesis on training prompts alone: a prompt
and its answer; a prompt, a mistake, the verifier's feedback, the right answer; and the
same with two mistakes.

It is a base with known, removable errors. 45 % of the weight of first answers lies on
mistakes (a constant that is off, another function that agrees with some examples), so
that a model which knows better still answers wrongly about that often. Repairs are
imitated without such noise: whoever reads feedback is told the truth. What training
gains at first is partly this noise going away; compare algorithms with each other, not
with the base alone.

3,600 steps of 16 demonstrations took 21 minutes on 2 CPU cores that had other work
beside (Python 3.13). Sampled at temperature 1 on 500 held-out prompts, 4 chains each,
Python 3.11: pass@1 0.193 [0.172, 0.214], pass@4 0.486, Iter-2 0.365, Iter-3 0.401;
P(solved on turn 2 | failed turn 1) 0.284 with the true feedback, 0.215 with another
task's, 0.184 for a fresh draw.
"""

import dataclasses

from ml_collections import ConfigDict

from rlvr_jax.training.supervised import PretrainConfig


def get_config() -> ConfigDict:
    """Sizes and data of the base model."""
    config = ConfigDict(dataclasses.asdict(PretrainConfig()))
    config.steps = 3600
    config.prompts = 16
    config.average = 0.99
    config.rows = 4
    config.row_length = 256
    config.target_length = 256

    config.shape.width = 128
    config.shape.layers = 4
    config.shape.heads = 4
    config.shape.mlp_width = 384

    config.demonstrations.mistake_share = 0.45
    config.demonstrations.trunk_share = 0.1
    config.demonstrations.second_share = 0.3

    config.optimizer.learning_rate = 3e-3
    config.optimizer.schedule = "linear"
    config.optimizer.warmup_steps = 50
    config.optimizer.b2 = 0.98
    config.optimizer.weight_decay = 0.05
    return config
