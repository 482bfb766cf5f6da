"""The training run: tasks -> rollout -> credit -> packing -> update -> files.

Keys and data order are functions of (seed, step), so that a resumed run repeats the
uninterrupted one.
"""

import json
import pathlib
import time
from typing import Any

import jax
import numpy as np
import tqdm

from rlvr_jax import distributed
from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.config import Config, to_json
from rlvr_jax.envs import STATUSES
from rlvr_jax.evaluation import evaluate
from rlvr_jax.metrics import (
    CompileCounter,
    MetricsFile,
    check_finite,
    status_metrics,
    tree_metrics,
)
from rlvr_jax.rollout import rollout
from rlvr_jax.training.preemption import Preempted, StopRequest
from rlvr_jax.training.records import write_rollouts
from rlvr_jax.training.shares import exchange
from rlvr_jax.training.step import TrainState, TrainStep
from rlvr_jax.training.update import update
from rlvr_jax.training.workbench import Workbench, open_workbench
from rlvr_jax.training.workdir import CHECKPOINTS, claim, find_source


def train(config: Config, workdir: pathlib.Path, *, resume: str | None) -> None:
    """Trains to `config.steps`, starting or continuing in `workdir`.

    Several processes (`distributed.start`) call it with the same arguments. Each
    samples and verifies its own part of a step's prompts; the update is one.

    Args:
        config: of the run.
        workdir: gets config.json, metrics.jsonl, rollouts/, checkpoints/, eval/; a
            folder that all processes see.
        resume: see `workdir.find_source`.

    Raises:
        ValueError: impossible settings or input, a folder of another run, or a process
            that was started with another configuration.
        TimeoutError: another process did not come in `mesh.wait_seconds`.
        FloatingPointError: a metric became NaN or infinite.
        Preempted: the process was told to stop (SIGTERM); it finished the step it was
            in, saved it, and the same call goes on from there.
    """
    wait = config.mesh.wait_seconds
    distributed.check_same("configuration", to_json(config), wait_seconds=wait)
    bench, params = open_workbench(config, workdir)
    with bench, StopRequest() as stop:
        source = find_source(workdir, config, resume)
        distributed.check_same("checkpoint to resume", str(source), wait_seconds=wait)
        distributed.check_same("tasks left out", str(bench.tried), wait_seconds=wait)
        train_step = make_train_step(bench)
        # Donated updates consume the policy; the reference is a copy of its own.
        with_reference = config.objective.kl_coefficient > 0
        reference = jax.tree.map(lambda x: x.copy(), params) if with_reference else None
        state, first = train_step.init(params), 0
        if source is not None:
            with Checkpoints(source.directory) as checkpoints:
                state, _ = checkpoints.restore(source.step, state)
            first = source.step
        # Only a start that can work changes the folder.
        if distributed.is_first():
            claim(workdir, config)
            _write_description(workdir, bench)
        distributed.barrier("warm-up of the sampler", wait_seconds=wait)
        bench.warm_up(state.params, training=True, evaluation=config.eval.every > 0)
        with Checkpoints(
            workdir / CHECKPOINTS,
            keep=config.checkpoint.keep,
            keep_every=config.checkpoint.keep_every or None,
        ) as checkpoints:
            checkpoints.delete_after(first)
            _run(bench, train_step, state, first, workdir, checkpoints, reference, stop)
        distributed.barrier("end", wait_seconds=wait)


def make_train_step(bench: Workbench) -> TrainStep:
    """The update that the workbench's configuration asks for."""
    config = bench.config
    return TrainStep(
        bench.model,
        objective=config.objective,
        optimizer=config.optimizer,
        num_steps=config.steps,
        head_chunk=config.update.head_chunk,
        mesh=bench.mesh,
        policy=bench.policy,
    )


def _run(
    bench: Workbench,
    train_step: TrainStep,
    state: TrainState,
    first: int,
    workdir: pathlib.Path,
    checkpoints: Checkpoints,
    reference: Any,
    stop: StopRequest,
) -> None:
    """Steps `first` to the end, each with its metrics, evaluation and checkpoint."""
    config = bench.config
    compilations = CompileCounter()
    file = None
    if distributed.is_first():
        file = MetricsFile(workdir / "metrics.jsonl", last_step=first - 1)
    bar = tqdm.tqdm(
        range(first, config.steps),
        initial=first,
        total=config.steps,
        desc="train",
        disable=file is None,
    )
    for step in bar:
        state, metrics = _train_once(bench, train_step, state, step, workdir, reference)
        check_finite(metrics, step)
        done = step + 1
        if config.eval.every and done % config.eval.every == 0:
            metrics |= _evaluate(bench, state, done, workdir)
        metrics["compile/count"] = compilations.count
        if file is not None:
            file.write(step, metrics)
        bar.set_postfix_str(_summary(metrics))
        distributed.barrier("end of a step", wait_seconds=config.mesh.wait_seconds)
        # Whoever was told to stop, all stop after the same step.
        asked = distributed.each(np.array(stop.requested)).any()
        stopping = bool(asked) and done < config.steps
        if done % config.checkpoint.every == 0 or done == config.steps or stopping:
            checkpoints.save(done, state, {"step": done, "seed": config.seed})
        if stopping:
            raise Preempted(done, config.steps)


def _train_once(
    bench: Workbench,
    train_step: TrainStep,
    state: TrainState,
    step: int,
    workdir: pathlib.Path,
    reference: Any,
) -> tuple[TrainState, dict[str, float]]:
    """One training step: (state after it, its metrics)."""
    config, start = bench.config, time.perf_counter()
    key = jax.random.fold_in(jax.random.key(config.seed), step)
    sample_key, update_key = jax.random.split(key)
    prompts = bench.stream.batch(step, config.rollout.prompts)
    own, wait = distributed.share(len(prompts)), config.mesh.wait_seconds
    distributed.barrier("weights for sampling", wait_seconds=wait)
    params = bench.whole(state.params)
    bench.sampler.prepare(params)
    grown = rollout(
        bench.sampler,
        params,
        prompts[own.start : own.stop],
        tokenizer=bench.tokenizer,
        verify=bench.verifier.verify,
        limits=bench.limits,
        key=sample_key,
        first_prompt=own.start,
        temperature=config.rollout.temperature,
    )
    bench.sampler.release()
    distributed.barrier("exchange of rewards", wait_seconds=wait)
    shared = exchange(grown.tree, grown.entropies, num_prompts=len(prompts))
    middle = time.perf_counter()
    state, assigned, metrics = update(
        train_step,
        state,
        grown.tree,
        config=config,
        key=update_key,
        reference=reference,
        whole=shared.tree,
        own=shared.own,
    )
    end = time.perf_counter()
    metrics |= tree_metrics(shared.tree, shared.entropies, shared.repeats)
    metrics |= _of_all(status_metrics(grown.statuses, STATUSES))
    # Each process's verifier knows its own responses: here they are the first one's.
    metrics |= {f"reward/{name}": x for name, x in bench.verifier.means().items()}
    metrics |= {f"time/{name}": value for name, value in grown.seconds.items()}
    metrics |= {"time/update": end - middle, "time/step": end - start}
    every = config.checkpoint.rollouts_every
    if every and step % every == 0:
        folder = workdir / "rollouts"
        folder.mkdir(exist_ok=True)
        process = jax.process_index()
        # A file per process: texts stay on the host that sampled them.
        part = f".{process:03d}" if process else ""
        path = folder / f"step_{step:06d}{part}.jsonl"
        mine = jax.tree.map(lambda x: x[shared.own], assigned)
        write_rollouts(path, step=step, grown=grown, assigned=mine)
    return state, metrics


def _of_all(counts: dict[str, float]) -> dict[str, float]:
    """Counts of this process's responses, summed over all processes; a collective."""
    totals = distributed.each(np.array(list(counts.values()))).sum(axis=0)
    return dict(zip(counts, totals.tolist(), strict=True))


def _evaluate(
    bench: Workbench, state: TrainState, step: int, workdir: pathlib.Path
) -> dict[str, float]:
    """Evaluates the policy, keeps the table, returns the means."""
    distributed.barrier("evaluation", wait_seconds=bench.config.mesh.wait_seconds)
    params = bench.whole(state.params)
    bench.sampler.prepare(params)
    result = evaluate(
        bench.sampler,
        params,
        bench.held_out,
        config=bench.config,
        tokenizer=bench.tokenizer,
        verify=bench.verifier.verify,
    )
    bench.sampler.release()
    bench.verifier.means()  # the next step's are of the next step's responses
    if distributed.is_first():
        folder = workdir / "eval"
        folder.mkdir(exist_ok=True)
        (folder / f"step_{step:06d}.json").write_text(json.dumps(result, indent=1))
    return {name: row["mean"] for name, row in result["metrics"].items()}


def _write_description(workdir: pathlib.Path, bench: Workbench) -> None:
    """What the run found on its host, beside its configuration."""
    description = {
        "devices": [str(device) for device in jax.devices()],
        "mesh": dict(bench.mesh.shape) if bench.mesh else {},
        "jax": jax.__version__,
        "verifier": bench.verifier.describe(),
        "prompts_skipped": bench.num_skipped,
        "tasks_outside_difficulty": bench.num_outside,
        "tasks_duplicated": bench.num_duplicates,
        "tasks_tried": bench.tried,
    }
    (workdir / "host.json").write_text(json.dumps(description, indent=1))


def _summary(metrics: dict[str, float]) -> str:
    """The progress bar's tail: reward, solved share, speed and the time of phases."""
    speed = metrics["tokens/sampled"] / max(metrics["time/sample"], 1e-9)
    # It is not there when no first attempt could be graded.
    first_turn = metrics.get("solved/turn_1", 0.0)
    return (
        f"reward {metrics['reward/mean']:.3f} turn1 {first_turn:.3f}"
        f" tree {metrics['solved/tree']:.3f} | {speed:.0f} tok/s"
        f" sample {metrics['time/sample']:.1f}s verify {metrics['time/verify']:.1f}s"
        f" update {metrics['time/update']:.1f}s"
    )
