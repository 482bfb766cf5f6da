"""The warm start: what it trains, and that it learns."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax.config import OptimizerSection
from rlvr_jax.tasks import build_character_tokenizer, load_tokenizer, synthesize
from rlvr_jax.training import demonstrations, supervised

TINY = supervised.PretrainConfig(
    steps=30,
    prompts=6,
    rows=1,
    row_length=512,
    target_length=256,
    shape=supervised.ShapeSection(width=32, layers=1, heads=2, mlp_width=32),
    optimizer=OptimizerSection(learning_rate=1e-2),
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    build_character_tokenizer(directory)
    return load_tokenizer(directory)


def test_loss_falls_and_the_run_repeats_bit_for_bit(tokenizer):
    def losses(config):
        values = []
        _, params = supervised.pretrain(
            config, tokenizer, report=lambda step, row: values.append(row["loss"])
        )
        return values, params

    values, params = losses(TINY)
    assert len(values) == TINY.steps
    assert values[0] == pytest.approx(np.log(100), rel=0.05)
    assert np.mean(values[-5:]) < 0.6 * values[0]
    again, same = losses(TINY)
    assert values == again
    equal = jax.tree.map(lambda a, b: bool((a == b).all()), params, same)
    assert all(jax.tree.leaves(equal))


def test_targets_are_the_imitated_responses_and_nothing_else(tokenizer):
    config = dataclasses.replace(TINY, prompts=3)
    batch = supervised.batch_of(config, tokenizer, 4)
    tasks = synthesize(seed=0, start=12, count=3, split="train")
    section = config.demonstrations
    wanted = []
    for task in tasks:
        made = demonstrations.demonstrate(
            task, seed=0, second_share=section.second_share
        )
        texts = [task.answer] * (1 + len(made.mistakes)) + [made.mistakes[0].text]
        wanted += [[*tokenizer.encode(text), *tokenizer.stop_ids] for text in texts]
        wanted.append(tokenizer.prompt_ids(task.prompt)[1:])
    trained = []
    for row in range(batch.num_rows):
        real = batch.loss_mask[row]
        for response in np.unique(batch.response_id[row][real]):
            chosen = real & (batch.response_id[row] == response)
            trained.append(batch.target[row][chosen].tolist())
    assert sorted(trained) == sorted(wanted)


def test_weights_are_an_average_over_imitated_tokens(tokenizer):
    batch = supervised.batch_of(TINY, tokenizer, 0)
    # Mistakes count by their share, so that the sum is 1 whatever the shares are.
    assert batch.weights.sum() == pytest.approx(1.0, rel=1e-5)
    assert (batch.advantages[batch.loss_mask] == 1).all()
    assert len(np.unique(batch.weights[batch.loss_mask])) == 3
