"""The supervised warm start: cross-entropy on demonstrations, with the RL machinery.

An imitated answer is a node with advantage 1 under the `reinforce` surrogate: its loss
is then weight x -log p of each token, which is cross-entropy.
"""

import concurrent.futures
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import models
from rlvr_jax.config import ObjectiveSection, OptimizerSection
from rlvr_jax.packing import TrainBatch, micro_batches, pack
from rlvr_jax.tasks import Tokenizer, synthesize
from rlvr_jax.training.demonstrations import demonstrate, fill_tree, shares
from rlvr_jax.training.step import TrainStep

POSITIVE = ("steps", "prompts", "save_every", "rows", "row_length", "target_length")


@dataclasses.dataclass(frozen=True)
class ShapeSection:
    """Sizes of the new model.

    Attributes:
        family: a family of `models.ModelConfig`.
        width, layers, heads, mlp_width: as there; head size is width / heads.
        max_position: longest context, tokens.
        initializer_range: standard deviation of the random weights; about
            width^-0.5 lets a small model learn to copy early.
    """

    family: str = "llama"
    width: int = 128
    layers: int = 4
    heads: int = 4
    mlp_width: int = 256
    max_position: int = 512
    initializer_range: float = 0.08


@dataclasses.dataclass(frozen=True)
class DemonstrationsSection:
    """What is imitated.

    Attributes:
        levels: shares of the difficulty levels of `tasks.synthesize`.
        mistake_share: how much of the weight of first answers goes to mistakes, in
            [0, 1): an error of the base model that training can take away.
        trunk_share: weight of a token of the prompt, >= 0; an answer's is 1.
        second_share: probability of a second mistake.
        text_tokens: capacity of a prompt or an answer.
        feedback_tokens: capacity of what stands between attempts.
    """

    levels: tuple[float, ...] = (2.0, 1.0, 0.0)
    mistake_share: float = 0.3
    trunk_share: float = 0.3
    second_share: float = 0.3
    text_tokens: int = 64
    feedback_tokens: int = 48


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """One warm start; the result is a function of this (and of the platform's sums).

    Attributes:
        seed: of weights, tasks and mistakes.
        steps: updates.
        prompts: demonstrations per update.
        average: decay per step of the running average of the weights, in [0, 1); the
            average is the result, so that no step has to be the last one.
        save_every: steps between two writings of the result.
        rows: packed rows of a micro-batch.
        row_length, target_length: tokens and targets of a row.
    """

    seed: int = 0
    steps: int = 1000
    prompts: int = 20
    average: float = 0.99
    save_every: int = 100
    rows: int = 3
    row_length: int = 256
    target_length: int = 128
    shape: ShapeSection = ShapeSection()
    demonstrations: DemonstrationsSection = DemonstrationsSection()
    optimizer: OptimizerSection = dataclasses.field(default_factory=OptimizerSection)

    def check(self) -> None:
        """Raises ValueError for values that cannot work, one clear line each."""
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1; got {getattr(self, name)}"
                )
        if not 0 <= self.average < 1:
            raise ValueError(f"average must be in [0, 1); got {self.average}")
        shape, section = self.shape, self.demonstrations
        if shape.width % (2 * shape.heads):
            raise ValueError(
                f"shape.width must be an even multiple of shape.heads {shape.heads};"
                f" got {shape.width}"
            )
        if not 0 <= section.mistake_share < 1:
            raise ValueError(
                "demonstrations.mistake_share must be in [0, 1); got"
                f" {section.mistake_share}"
            )
        if section.trunk_share < 0:
            raise ValueError(
                f"demonstrations.trunk_share must be 0 or more; got"
                f" {section.trunk_share}"
            )
        if not 0 <= section.second_share <= 1:
            raise ValueError(
                "demonstrations.second_share must be in [0, 1]; got"
                f" {section.second_share}"
            )


def pretrain(
    config: PretrainConfig,
    tokenizer: Tokenizer,
    *,
    report: Callable[[int, dict[str, float]], None] | None = None,
    save: Callable[[models.Decoder, dict], None] | None = None,
) -> tuple[models.Decoder, dict]:
    """Trains a new model on demonstrations.

    Args:
        config: sizes and data.
        tokenizer: gives the vocabulary.
        report: called after each step with its number and metrics: `loss` in nats per
            imitated token, `grad/norm`, `tokens` in packed rows, `time` in seconds.
        save: called with (model, averaged params) every `save_every` steps and at the
            end; it must not keep the params.

    Returns:
        (model, params), float32: the running average of the weights.
    """
    model, params = new_model(config, tokenizer.vocab_size)
    train = TrainStep(
        model,
        objective=ObjectiveSection(surrogate="reinforce"),
        optimizer=config.optimizer,
        num_steps=config.steps,
        head_chunk=config.target_length,
    )
    # Both are donated to their updates, so they must not share memory.
    average = jax.tree.map(jnp.copy, params)
    state = train.init(params)
    begin = time.perf_counter()
    for step, batch in enumerate(_batches(config, tokenizer)):
        parts = list(micro_batches(batch, config.rows))
        gradients, sums = train.gradients(state.params, parts, 1.0)
        state, metrics = train.update(state, gradients)
        state = train.advance(state)
        # Young averages forget faster: the random start must not linger.
        decay = min(config.average, (1 + step) / (10 + step))
        average = _mix(average, state.params, decay)
        if report is not None:
            values = {
                "loss": float(sums["loss"]),
                "grad/norm": float(metrics["grad/norm"]),
                "tokens": int((batch.positions > 0).sum()),
                "time": time.perf_counter() - begin,
            }
            report(step, values)
        done = step + 1
        if save is not None and (done % config.save_every == 0 or done == config.steps):
            save(model, average)
    return model, average


@functools.partial(jax.jit, donate_argnums=0)
def _mix(average: dict, params: dict, decay: float) -> dict:
    return jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, params)


def new_model(config: PretrainConfig, vocab_size: int) -> tuple[models.Decoder, dict]:
    """A decoder of the configured sizes with random weights."""
    shape = config.shape
    model_config = models.ModelConfig(
        family=shape.family,
        vocab_size=vocab_size,
        width=shape.width,
        num_layers=shape.layers,
        num_heads=shape.heads,
        num_kv_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        mlp_width=shape.mlp_width,
        tied=True,
        qk_norm=models.config.FAMILIES[shape.family].qk_norm,
        max_position=shape.max_position,
        initializer_range=shape.initializer_range,
    )
    _, params = models.init(model_config, jax.random.key(config.seed))
    return models.Decoder(model_config, remat=False, unroll=shape.layers), params


def batch_of(config: PretrainConfig, tokenizer: Tokenizer, step: int) -> TrainBatch:
    """The packed demonstrations of one step."""
    section = config.demonstrations
    tasks = synthesize(
        seed=config.seed,
        start=step * config.prompts,
        count=config.prompts,
        split="train",
        levels=section.levels,
    )
    tree = fill_tree(
        [
            demonstrate(task, seed=config.seed, second_share=section.second_share)
            for task in tasks
        ],
        tokenizer,
        text_length=section.text_tokens,
        feedback_length=section.feedback_tokens,
    )
    parts = shares(
        tree,
        mistake_share=section.mistake_share,
        trunk_share=section.trunk_share,
    )
    imitated = parts > 0
    # An average over imitated tokens in which a token counts by its node's part.
    weights = parts / (parts * tree.response_lengths).sum()
    return pack(
        tree,
        advantages=imitated.astype(np.float32),
        weights=weights,
        train_mask=imitated,
        row_length=config.row_length,
        target_length=config.target_length,
    )


def _batches(config: PretrainConfig, tokenizer: Tokenizer) -> Iterator[TrainBatch]:
    """The batches of all steps, each made while the one before is trained."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        waiting = thread.submit(batch_of, config, tokenizer, 0)
        for step in range(config.steps):
            batch = waiting.result()
            if step + 1 < config.steps:
                waiting = thread.submit(batch_of, config, tokenizer, step + 1)
            yield batch
