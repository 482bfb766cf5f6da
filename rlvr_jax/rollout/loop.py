"""The rollout: waves of contexts are sampled while earlier ones are verified."""

import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from rlvr_jax import sampling, tree
from rlvr_jax.envs import Verdict
from rlvr_jax.rollout.growth import Growth, Node
from rlvr_jax.rollout.records import Limits, Rollout, Verify
from rlvr_jax.tasks import Task, Tokenizer


@dataclasses.dataclass(frozen=True)
class _Wave:
    """Nodes whose children are sampled together, and the samples they are in."""

    turn: int
    parents: Sequence[Node]
    samples: sampling.Samples | None


def rollout(
    sampler: sampling.Sampler,
    params: dict[str, Any],
    tasks: Sequence[Task],
    *,
    tokenizer: Tokenizer,
    verify: Verify,
    limits: Limits,
    key: jax.Array,
    first_prompt: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
) -> Rollout:
    """Grows one tree per task: unsolved attempts are shown their feedback and retried.

    Contexts are decoded in waves of the sampler's largest bucket. Each wave is verified
    while the next ones are decoded, those of the next turn too: its contexts wait for
    the verdicts of their own parents alone. What is sampled, in which shapes and in
    which order depends on verdicts and never on time.

    Args:
        sampler: of the policy.
        params: plain parameters of the policy.
        tasks: B tasks.
        tokenizer: of the policy.
        verify: grades a batch of (task, response text), in order. It is called in one
            other thread, once per wave.
        limits: sizes and rules.
        key: of this rollout; never consumed.
        first_prompt: global index of the first task in the step's batch: with the slot
            it names a context, so that random numbers do not depend on who samples.
        temperature, top_p, top_k: of sampling.

    Returns:
        `Rollout`. A node that could not be graded, or all of whose children could not,
        has `node_mask` False and stays as context.

    Raises:
        ValueError: a prompt is longer than `limits.prompt_tokens`.
        Exception: whatever `verify` raised, after the wave that it grades has ended.
    """
    growth = Growth(tasks, tokenizer, limits, first_prompt)
    prompts, branching = growth.prompt_ids(), limits.layout.branching
    size = sampler.buckets.contexts[-1]
    settings = {
        "stop_ids": tokenizer.stop_ids,
        "key": key,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
    }

    def sample(wave: _Wave) -> sampling.Samples:
        wanted = {
            "context_ids": [growth.context_id(node) for node in wave.parents],
            "max_new_tokens": [growth.allowance(node) for node in wave.parents],
            "num_samples": branching[wave.turn],
            **settings,
        }
        if wave.samples is None:
            contexts = [prompts[node.prompt] for node in wave.parents]
            return sampler.generate(params, contexts, **wanted)
        return sampler.extend(
            params,
            wave.samples,
            select=[(node.context, node.branch) for node in wave.parents],
            appendix=[growth.appendix(node) for node in wave.parents],
            **wanted,
        )

    roots = [Node(prompt, tree.NO_PARENT) for prompt in range(len(tasks))]
    waiting = collections.deque(_waves(0, roots, None, size))
    grading: collections.deque = collections.deque()
    background = _Background(verify)
    sampling_time = 0.0
    try:
        while waiting or grading:
            # First in, first out: turns come in order, so that two neighbouring ones at
            # the most have caches, and no order depends on who is ready first.
            if not waiting:
                turn, nodes, samples, future = grading.popleft()
                growth.grade(nodes, background.result(future))
                below = growth.expandable(nodes)
                waiting.extend(_waves(turn + 1, below, samples, size))
                continue
            start = time.perf_counter()
            wave = waiting.popleft()
            samples = sample(wave)
            nodes = growth.add(samples, wave.parents)
            sampling_time += time.perf_counter() - start
            future = background.submit(growth.pairs(nodes))
            if wave.turn + 1 == len(branching):
                samples = None  # nobody continues them: their caches may go
            grading.append((wave.turn, nodes, samples, future))
    finally:
        background.close()
    growth.drop_lost_parents()
    return growth.result({"sample": sampling_time, **background.seconds()})


def _waves(
    turn: int, parents: Sequence[Node], samples: sampling.Samples | None, size: int
) -> Iterator[_Wave]:
    """`size` neighbours at a time, which the sampler decodes as one wave."""
    for start in range(0, len(parents), size):
        yield _Wave(turn, parents[start : start + size], samples)


class _Background:
    """One thread in which `verify` runs, a batch after the other.

    A single one: a verifier need not be safe for threads, and what it remembers of
    earlier batches does not depend on time.
    """

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "rlvr-rollout")
        self._busy = self._waited = 0.0

    def submit(self, pairs: list[tuple[Task, str]]) -> concurrent.futures.Future:
        """Queues a batch."""
        return self._thread.submit(self._run, pairs)

    def result(self, future: concurrent.futures.Future) -> list[Verdict]:
        """The verdicts of a batch, once they are there; raises what `verify` did."""
        start = time.perf_counter()
        verdicts = future.result()
        self._waited += time.perf_counter() - start
        return verdicts

    def seconds(self) -> dict[str, float]:
        """Time that the caller waited, and the other time that `verify` ran."""
        hidden = max(0.0, self._busy - self._waited)
        return {"verify": self._waited, "verify_hidden": hidden}

    def close(self) -> None:
        """Ends the thread after the batch in work; the others are forgotten."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _run(self, pairs: list[tuple[Task, str]]) -> list[Verdict]:
        start = time.perf_counter()
        try:
            return self._verify(pairs)
        finally:
            self._busy += time.perf_counter() - start
