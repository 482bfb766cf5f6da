"""From a graded tree to new weights: credit, packing, mini-batches, updates."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from rlvr_jax import credit, distributed, packing
from rlvr_jax.config import Config
from rlvr_jax.metrics import mean
from rlvr_jax.objective import overlong_penalty, token_weights
from rlvr_jax.training.step import TrainState, TrainStep
from rlvr_jax.tree import RolloutTree

Params = dict[str, Any]
# Sums of the loss -> metrics; those of a term are there where the term is.
PER_TOKEN = {
    "clip_low": "policy/clip_low",
    "clip_high": "policy/clip_high",
    "kl": "loss/kl",
    "kl_k1": "policy/kl_k1",
    "entropy": "loss/entropy",
    "tis_weight": "policy/tis_weight",
    "tis_capped": "policy/tis_capped",
}


def update(
    train_step: TrainStep,
    state: TrainState,
    tree: RolloutTree,
    *,
    config: Config,
    key: jax.Array,
    reference: Params | None,
    whole: RolloutTree | None = None,
    own: slice = slice(None),
) -> tuple[TrainState, credit.Credit, dict[str, float]]:
    """All updates of one rollout; without any signal the weights stay untouched.

    Args:
        train_step: compiled.
        state: consumed.
        tree: sampled and graded, by this process.
        config: sections `credit`, `objective` and `update`.
        key: of this step; orders the mini-batches.
        reference: parameters of the KL term's policy, None without one.
        whole: the trees of all processes, see `shares.exchange`; None: `tree` is all.
        own: rows of `tree` in `whole`.

    Returns:
        (state with its step counted, credit on the host of `whole`, metrics); credit
        and metrics are the same in every process.

    Raises:
        ValueError: a KL term without `reference`.
    """
    if config.objective.kl_coefficient and reference is None:
        raise ValueError(
            f"reference must be parameters for objective.kl_coefficient"
            f" {config.objective.kl_coefficient}; got None"
        )
    whole = tree if whole is None else whole
    shaped, metrics = _shaped(whole, config)
    assigned = jax.tree.map(np.asarray, credit.assign(shaped, config.credit))
    totals: dict[str, float] = {}
    metrics["groups/zero_signal"] = _zero_signal(assigned, config, whole)
    batches, saved = _batches(tree, whole, own, assigned, config=config, key=key)
    # All are scored before the first update: the ratio starts from the policy that
    # sampled, and weights that an update consumed are gone.
    batches = [
        _scored(train_step, state.params, batch, reference, config) for batch in batches
    ]
    for index, batch in enumerate(batches):
        rows = packing.micro_batches(batch, _own_rows(config))
        gradients, sums = train_step.gradients(
            state.params, rows, config.rollout.temperature
        )
        state, measured = train_step.update(state, gradients)
        sums = {name: float(value) for name, value in sums.items()}
        if index == 0:
            # Later updates have moved the policy; only here is the gap an error.
            metrics["policy/sampler_gap"] = sums["gap"] / sums["tokens"]
        for name, value in sums.items():
            totals[name] = totals.get(name, 0.0) + value
        metrics |= {name: float(value) for name, value in measured.items()}
    metrics |= _loss_metrics(totals, len(batches))
    metrics["tokens/trained"] = totals.get("tokens", 0.0)
    metrics["tokens/saved_by_packing"] = saved
    return train_step.advance(state), assigned, metrics


def _own_rows(config: Config) -> int:
    """Rows of a micro-batch that each process gives."""
    return config.update.rows // jax.process_count()


def _batches(
    tree: RolloutTree,
    whole: RolloutTree,
    own: slice,
    assigned: credit.Credit,
    *,
    config: Config,
    key: jax.Array,
) -> tuple[list[packing.TrainBatch], float]:
    """The packed rows of every update, and the share of tokens that packing saved.

    Each process packs its own trees; rows of padding make as many of them everywhere.
    """
    batches, counts = [], []
    for prompts in _minibatches(whole.num_prompts, config, key):
        batch, train_mask, trains = _pack(tree, whole, own, assigned, prompts, config)
        if trains:
            packed = packing.count_tokens(batch)
            path = packing.count_path_tokens(tree, train_mask)
            batches.append(batch)
            counts.append((batch.num_rows, packed, path))
    if not batches:
        return [], 0.0
    distributed.barrier("update", wait_seconds=config.mesh.wait_seconds)
    everywhere = distributed.each(np.array(counts, np.int32))
    most = everywhere[:, :, 0].max(axis=0)
    _, num_packed, num_path = everywhere.sum(axis=(0, 1), dtype=np.int64).tolist()
    rows = _own_rows(config)
    filled = [
        _filled(batch, -(-int(needed) // rows) * rows)
        for batch, needed in zip(batches, most, strict=True)
    ]
    return filled, 1.0 - num_packed / num_path


def _filled(batch: packing.TrainBatch, num_rows: int) -> packing.TrainBatch:
    """`batch` with rows of padding, `num_rows` in all."""
    padding = packing.empty_batch(
        num_rows - batch.num_rows,
        row_length=batch.tokens.shape[1],
        target_length=batch.target.shape[1],
    )
    return jax.tree.map(lambda *parts: np.concatenate(parts), batch, padding)


def _shaped(tree: RolloutTree, config: Config) -> tuple[RolloutTree, dict[str, float]]:
    """The tree with the rewards that credit reads, and what shaping took.

    Whether a node is solved, and what records and reward/mean show, is not shaped.
    """
    limit = config.rollout.max_response_tokens
    if not config.rollout.overlong:
        return tree, {}
    buffer = max(1, round(config.rollout.overlong * limit))
    penalty = overlong_penalty(tree.response_lengths, max_length=limit, buffer=buffer)
    rewards = tree.rewards + penalty
    taken = {"reward/overlong": mean(penalty, tree.node_mask)}
    return dataclasses.replace(tree, rewards=rewards), taken


def _minibatches(
    num_prompts: int, config: Config, key: jax.Array
) -> Iterator[np.ndarray]:
    """Prompts of each update: every epoch splits them anew, in an order of its own."""
    for epoch in range(config.update.epochs):
        order = np.arange(num_prompts)
        if config.update.minibatches > 1:
            own = jax.random.fold_in(key, epoch)
            order = np.asarray(jax.random.permutation(own, num_prompts))
        yield from np.array_split(order, config.update.minibatches)


def _pack(
    tree: RolloutTree,
    whole: RolloutTree,
    own: slice,
    assigned: credit.Credit,
    prompts: np.ndarray,
    config: Config,
) -> tuple[packing.TrainBatch, np.ndarray, bool]:
    """Packed rows of those of these prompts that are here, the mask of the nodes they
    train, and whether any process trains any."""
    chosen = np.zeros(whole.num_prompts, bool)
    chosen[prompts] = True
    counted = assigned.keep_mask & chosen[:, None]
    weights = token_weights(
        config.objective.reduction,
        whole.response_lengths,
        counted,
        np.asarray(credit.sibling_groups(whole.layout)),
        max_length=config.rollout.max_response_tokens,
    )
    # Nodes without a signal leave the rows but stay in the normalisers above.
    train_mask = counted & (assigned.advantages != 0)
    if config.objective.kl_coefficient or config.objective.entropy_coefficient:
        train_mask = counted
    batch = packing.pack(
        tree,
        advantages=assigned.advantages[own],
        weights=weights[own],
        train_mask=train_mask[own],
        row_length=config.update.row_length,
        target_length=config.update.target_length,
    )
    return batch, train_mask[own], bool(train_mask.any())


def _scored(
    train_step: TrainStep,
    params: Params,
    batch: packing.TrainBatch,
    reference: Params | None,
    config: Config,
) -> packing.TrainBatch:
    """The batch with the old and reference log-probs that its loss reads."""

    def score(params: Params) -> np.ndarray:
        parts = [
            np.asarray(train_step.score(params, rows, config.rollout.temperature))
            for rows in packing.micro_batches(batch, _own_rows(config))
        ]
        return np.concatenate(parts)[: batch.num_rows]

    if config.objective.old_log_probs == "recompute":
        batch = dataclasses.replace(batch, old_log_probs=score(params))
    if reference is not None:
        batch = dataclasses.replace(batch, ref_log_probs=score(reference))
    return batch


def _zero_signal(assigned: credit.Credit, config: Config, tree: RolloutTree) -> float:
    """Share of the groups with members in which every advantage is 0."""
    groups = config.credit.groups(tree.layout)
    present, silent = 0, 0
    for group in np.unique(groups):
        members = assigned.keep_mask[:, groups == group]
        signal = (assigned.advantages[:, groups == group] != 0).any(axis=1)
        present += int(members.any(axis=1).sum())
        silent += int((members.any(axis=1) & ~signal).sum())
    return silent / max(present, 1)


def _loss_metrics(totals: dict[str, float], num_updates: int) -> dict[str, float]:
    """Means over all updates of the step: the loss per update, the rest per token."""
    if not totals:
        return {}
    tokens = max(totals["tokens"], 1.0)
    metrics = {"loss/policy": totals["policy"] / num_updates}
    for name, metric in PER_TOKEN.items():
        if name in totals:
            metrics[metric] = totals[name] / tokens
    return metrics
