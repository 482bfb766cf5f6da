"""Everything that a run holds open: policy, tokenizer, tasks, sampler, verifier."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import tqdm

from rlvr_jax import envs, models, sampling, sharding, tasks
from rlvr_jax.config import Config, model_directory
from rlvr_jax.rollout import Limits
from rlvr_jax.training import soundness
from rlvr_jax.training.policy import Policy, make_policy, start_of, stored_types

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Workbench:
    """The parts of a run; close it, or use it in a `with`.

    Attributes:
        config: of the run.
        tokenizer: of the policy.
        model: the decoder, with the run's compute type.
        policy: what is trained of it.
        sampler: of the policy.
        verifier: grades responses.
        stream: training tasks of each step.
        held_out: tasks of the evaluation.
        mesh: of the training; None is one device.
        num_skipped: prompts of the data sets that were longer than the limit.
        num_outside: training tasks outside tasks.difficulty.
        num_duplicates: training tasks whose prompt came before.
        tried: per data set, what trying its answers found, see `soundness`.
    """

    config: Config
    tokenizer: tasks.Tokenizer
    model: models.Decoder
    policy: Policy
    sampler: sampling.Sampler
    verifier: envs.Verifier
    stream: tasks.DatasetStream | tasks.ProgramStream
    held_out: Sequence[tasks.Task]
    mesh: jax.sharding.Mesh | None
    num_skipped: int
    num_outside: int = 0
    num_duplicates: int = 0
    tried: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """Sizes and rules of the training rollouts."""
        rollout = self.config.rollout
        return Limits(
            layout=rollout.layout,
            prompt_tokens=self.config.tasks.max_prompt_tokens,
            response_tokens=rollout.max_response_tokens,
            feedback_tokens=rollout.max_feedback_tokens,
            budget=rollout.budget,
            expand=rollout.expand,
            feedback=rollout.feedback,
        )

    def whole(self, trained: Params) -> Params:
        """Parameters of the model, for sampling; computes nothing."""
        return self.policy.whole(trained, self.policy.frozen)

    def warm_up(self, params: Params, *, training: bool, evaluation: bool) -> int:
        """Compiles all programs of the sampler; returns how many there are.

        Args:
            params: what is trained.
            training, evaluation: what will sample.
        """
        samples, turns = set(), 1
        if training:
            samples |= set(self.config.rollout.branching)
            turns = len(self.config.rollout.branching)
        if evaluation:
            section = self.config.eval
            samples |= {section.samples} | ({1} if section.turns > 1 else set())
            turns = max(turns, section.turns)
        compiled = sampling.warm_up(
            self.sampler,
            self.whole(params),
            num_samples=sorted(samples),
            max_new_tokens=self.config.rollout.max_response_tokens,
            turns=turns,
        )
        bar = tqdm.tqdm(compiled, desc="compile sampler", unit=" programs")
        return sum(1 for _ in bar)

    def __enter__(self) -> "Workbench":
        return self

    def __exit__(self, *exception: object) -> None:
        self.verifier.close()


def open_workbench(
    config: Config, workdir: pathlib.Path | None = None
) -> tuple[Workbench, Params]:
    """Loads and checks everything a run needs, before anything is compiled.

    Args:
        config: of the run.
        workdir: of the run, where an earlier start may have tried the tasks.

    Returns:
        The workbench, and what is trained as it is at the start (float32).

    Raises:
        ValueError: weights, tokenizer or tasks are missing or unusable.
        OSError: a file cannot be read.
    """
    directory = model_directory(config)
    mesh, places = _mesh(config, models.ModelConfig.from_directory(directory))
    tokenizer = tasks.load_tokenizer(directory, thinking=config.model.thinking_switch)
    _check_feedback_room(tokenizer, config)
    training, held_out = _read_tasks(config)
    same = training is held_out
    training, outside, duplicates = _selected(training, config)
    kinds = {task.kind for task in [*held_out, *training]}
    if len(kinds) > 1 and not config.tasks.verifier:
        raise ValueError(
            f"tasks.source and tasks.eval_source must hold one kind of task; got"
            f" {sorted(kinds)}"
        )
    training, skipped = _fitting(training, tokenizer, config, "tasks.source")
    if same:
        held_out = training
    else:
        held_out, more = _fitting(held_out, tokenizer, config, "tasks.eval_source")
        skipped += more
    if not held_out:
        raise ValueError(
            f"tasks.{'source' if same else 'eval_source'} has no task whose prompt fits"
            f" tasks.max_prompt_tokens {config.tasks.max_prompt_tokens}: raise it"
        )
    if config.tasks.source == "programs":
        _check_generated(tokenizer, config)
    model, params = models.load(directory, shardings=places, **stored_types(config))
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size} ids but the model"
            f" has {model.config.vocab_size} embeddings; they belong to two models"
        )
    model = model.clone(
        dtype=jnp.dtype(config.model.dtype),
        remat=config.model.remat,
        unroll=config.model.unroll,
    )
    policy = make_policy(config, model.config, params)
    sampler = sampling.Sampler(model, buckets=_buckets(model, config), mesh=mesh)
    verifier = _verifier(kinds.pop(), config)
    try:
        training, held_out, tried = soundness.sound_tasks(
            verifier, training, held_out, config, workdir
        )
    except BaseException:
        verifier.close()
        raise
    if config.tasks.source == "programs":
        stream = tasks.ProgramStream(seed=config.seed, levels=config.tasks.levels)
    else:
        stream = tasks.DatasetStream(training, seed=config.seed)
    workbench = Workbench(
        config=config,
        tokenizer=tokenizer,
        model=model,
        policy=policy,
        sampler=sampler,
        verifier=verifier,
        stream=stream,
        held_out=held_out[: config.eval.tasks],
        mesh=mesh,
        num_skipped=skipped,
        num_outside=outside,
        num_duplicates=duplicates,
        tried=tried,
    )
    return workbench, start_of(policy, params, seed=config.seed, mesh=mesh)


def _mesh(
    config: Config, model: models.ModelConfig
) -> tuple[jax.sharding.Mesh | None, Any]:
    """(the mesh of the training, where each parameter lies); (None, None): one device.

    Raises:
        ValueError: sizes that do not divide the devices, the model or the rows.
    """
    sizes = sharding.resolve_sizes(
        config.mesh.sizes, jax.device_count(), num_processes=jax.process_count()
    )
    sharding.check_model(
        sizes,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        vocab_size=model.vocab_size,
        width=model.width,
        mlp_width=model.mlp_width,
    )
    data, fsdp, _ = sizes
    spread = "mesh.data x mesh.fsdp"
    sharding.check_multiple("update.rows", [config.update.rows], data * fsdp, spread)
    mesh = sharding.make_mesh(sizes)
    places = sharding.parameter_shardings(
        mesh,
        models.logical_axes(model),
        sharding.TRAINING_RULES,
        num_kv_heads=model.num_kv_heads,
    )
    return mesh, places


def _buckets(model: models.Decoder, config: Config) -> sampling.Buckets:
    """The sampler's shapes; raises ValueError if their caches could be too large."""
    buckets = sampling.Buckets(
        contexts=config.sampler.contexts,
        context_lengths=config.context_lengths(),
        chunk=config.sampler.chunk,
    )
    rollout, section = config.rollout, config.eval
    chains = (section.samples,) + (1,) * (section.turns - 1)
    for name, branching, prompts in (
        ("rollout.branching", rollout.branching, rollout.prompts),
        ("eval.samples and eval.turns", chains, config.eval_batch),
    ):
        tokens = buckets.cache_tokens(branching, prompts, rollout.max_response_tokens)
        needed = sampling.context_bytes(model.config, tokens, model.dtype)
        if needed > config.sampler.cache_bytes:
            raise ValueError(
                f"sampler.cache_bytes is {config.sampler.cache_bytes} but the caches of"
                f" {prompts} prompts with {name} {branching} may take {needed}"
                " bytes: raise it, or lower rollout.prompts, branching or limits"
            )
    return buckets


def _verifier(kind: str, config: Config) -> envs.Verifier:
    """The verifier of a kind of tasks, or of the configuration's functions."""
    section = config.tasks
    if section.verifier != "function":
        sandboxed = kind in envs.SANDBOXED
        settings = dataclasses.asdict(config.sandbox) if sandboxed else {}
        return envs.make_verifier(kind, workers=section.verifier_workers, **settings)
    return envs.make_verifier(
        "function",
        workers=section.verifier_workers,
        functions=section.verifier_functions,
        weights=section.verifier_weights,
        threshold=section.solved_threshold,
    )


def _check_feedback_room(tokenizer: tasks.Tokenizer, config: Config) -> None:
    """Raises ValueError if not even an empty feedback fits between two attempts."""
    turns = max(config.rollout.layout.num_turns, config.eval.turns)
    needed = len(tokenizer.appendix_ids("", closed=False))
    room = config.rollout.max_feedback_tokens
    if turns > 1 and needed > room:
        raise ValueError(
            "rollout.max_feedback_tokens must hold the chat template's glue,"
            f" {needed} tokens, and some feedback; got {room}"
        )


def _check_generated(tokenizer: tasks.Tokenizer, config: Config) -> None:
    """Raises ValueError if a generated prompt may be longer than the limit."""
    prompts = tasks.longest_prompts(config.tasks.levels)
    needed = max(len(tokenizer.prompt_ids(prompt)) for prompt in prompts)
    if needed > config.tasks.max_prompt_tokens:
        raise ValueError(
            f"tasks.max_prompt_tokens must hold generated prompts, up to {needed}"
            f" tokens at tasks.levels {config.tasks.levels}; got"
            f" {config.tasks.max_prompt_tokens}"
        )


def _read_tasks(config: Config) -> tuple[list[tasks.Task], list[tasks.Task]]:
    """(training tasks of a data set, held-out tasks)."""
    section = config.tasks
    training = []
    if section.source != "programs":
        training = _data_set(section.source, config, config.seed, section.generated)
    if section.eval_source:
        held_out = _data_set(
            section.eval_source, config, config.eval.seed, config.eval.tasks
        )
        return training, held_out
    if training:
        return training, training
    held_out = tasks.synthesize(
        seed=config.eval.seed,
        start=0,
        count=config.eval.tasks,
        split="heldout",
        levels=section.levels,
    )
    return training, held_out


def _data_set(source: str, config: Config, seed: int, count: int) -> list[tasks.Task]:
    """The rows of a file, a split of arithmetic, or `count` tasks of generators."""
    exercises = source.removeprefix("arithmetic:")
    if exercises != source:
        return tasks.arithmetic_tasks(exercises)
    generators = source.removeprefix("reasoning_gym:")
    if generators != source:
        return tasks.generate_reasoning(generators.split(","), seed=seed, count=count)
    return tasks.read_tasks(source, config.tasks.format)


def _selected(
    rows: list[tasks.Task], config: Config
) -> tuple[list[tasks.Task], int, int]:
    """(tasks kept, how many were outside tasks.difficulty, how many came before)."""
    section = config.tasks
    outside = duplicates = 0
    if rows and section.difficulty:
        rows, outside = tasks.within_difficulty(rows, *section.difficulty)
        if not rows:
            raise ValueError(
                f"tasks.source has no task with a difficulty in {section.difficulty}:"
                " widen tasks.difficulty"
            )
    if section.deduplicate:
        rows, duplicates = tasks.without_duplicates(rows)
    return rows, outside, duplicates


def _fitting(
    rows: Sequence[tasks.Task], tokenizer: tasks.Tokenizer, config: Config, name: str
) -> tuple[list[tasks.Task], int]:
    """(tasks whose prompt fits, how many were left out)."""
    limit = config.tasks.max_prompt_tokens
    lengths = [len(tokenizer.prompt_ids(task.prompt)) for task in rows]
    fitting = [
        task for task, length in zip(rows, lengths, strict=True) if length <= limit
    ]
    left_out = len(rows) - len(fitting)
    if left_out and config.tasks.too_long == "error":
        longest = max(range(len(rows)), key=lengths.__getitem__)
        raise ValueError(
            f"{name}: {left_out} of {len(rows)} prompts are longer than"
            f" tasks.max_prompt_tokens {limit}, the longest ({rows[longest].id}) has"
            f" {lengths[longest]}: raise it or set tasks.too_long to 'skip'"
        )
    return fitting, left_out
