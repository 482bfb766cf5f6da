"""From a graded tree to new weights: credit, packing, mini-batches, updates."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from rlvr_jax import credit, packing
from rlvr_jax.config import Config
from rlvr_jax.objective import token_weights
from rlvr_jax.training.step import TrainState, TrainStep
from rlvr_jax.tree import RolloutTree

Params = dict[str, Any]


def update(
    train_step: TrainStep,
    state: TrainState,
    tree: RolloutTree,
    *,
    config: Config,
    key: jax.Array,
    reference: Params | None,
) -> tuple[TrainState, credit.Credit, dict[str, float]]:
    """All updates of one rollout; without any signal the weights stay untouched.

    Args:
        train_step: compiled.
        state: consumed.
        tree: sampled and graded.
        config: sections `credit`, `objective` and `update`.
        key: of this step; orders the mini-batches.
        reference: parameters of the KL term's policy, None without one.

    Returns:
        (state with its step counted, credit on the host, metrics).

    Raises:
        ValueError: a KL term without `reference`.
    """
    if config.objective.kl_coefficient and reference is None:
        raise ValueError(
            f"reference must be parameters for objective.kl_coefficient"
            f" {config.objective.kl_coefficient}; got None"
        )
    assigned = jax.tree.map(np.asarray, credit.assign(tree, config.credit))
    totals: dict[str, float] = {}
    metrics = {"groups/zero_signal": _zero_signal(assigned, config, tree)}
    num_packed = num_path = 0
    # All are scored before the first update: the ratio starts from the policy that
    # sampled, and weights that an update consumed are gone.
    batches = []
    for prompts in _minibatches(tree.num_prompts, config, key):
        batch, train_mask = _pack(tree, assigned, prompts, config)
        if batch.num_rows:
            batch = _scored(train_step, state.params, batch, reference, config)
            batches.append(batch)
            num_packed += packing.count_tokens(batch)
            num_path += packing.count_path_tokens(tree, train_mask)
    for index, batch in enumerate(batches):
        rows = packing.micro_batches(batch, config.update.rows)
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
    metrics["tokens/saved_by_packing"] = (
        1.0 - num_packed / num_path if num_path else 0.0
    )
    return train_step.advance(state), assigned, metrics


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
    tree: RolloutTree, assigned: credit.Credit, prompts: np.ndarray, config: Config
) -> tuple[packing.TrainBatch, np.ndarray]:
    """Packed rows of these prompts, and the mask [B, N] of the nodes they train."""
    chosen = np.zeros(tree.num_prompts, bool)
    chosen[prompts] = True
    counted = assigned.keep_mask & chosen[:, None]
    weights = token_weights(
        config.objective.reduction,
        tree.response_lengths,
        counted,
        np.asarray(credit.sibling_groups(tree.layout)),
        max_length=config.rollout.max_response_tokens,
    )
    # Nodes without a signal leave the rows but stay in the normalisers above.
    train_mask = counted & (assigned.advantages != 0)
    if config.objective.kl_coefficient:
        train_mask = counted
    batch = packing.pack(
        tree,
        advantages=assigned.advantages,
        weights=weights,
        train_mask=train_mask,
        row_length=config.update.row_length,
        target_length=config.update.target_length,
    )
    return batch, train_mask


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
            for rows in packing.micro_batches(batch, config.update.rows)
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
    metrics = {
        "loss/policy": totals["policy"] / num_updates,
        "policy/clip_low": totals["clip_low"] / tokens,
        "policy/clip_high": totals["clip_high"] / tokens,
    }
    if "kl" in totals:
        metrics["loss/kl"] = totals["kl"] / tokens
    return metrics
