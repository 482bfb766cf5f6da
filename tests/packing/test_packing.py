"""Packed rows against one path at a time: what each target reads, and what it is."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax import packing
from tests.packing import paths

SEEDS = range(12)
LONG, MANY = 400, 390  # tokens and targets of rows that hold several trees


def packed(tree, train_mask, *, row_length=LONG, target_length=MANY, seed=0):
    advantages, weights = paths.random_credit(tree, seed)
    batch = packing.pack(
        tree,
        advantages=advantages,
        weights=weights,
        train_mask=train_mask,
        row_length=row_length,
        target_length=target_length,
    )
    return batch, advantages, weights


def read_by(batch, row, query):
    """Indices that query reads, by the rule of the attention."""
    index = np.arange(batch.tokens.shape[1])
    return np.flatnonzero((index <= query) & (query <= batch.last_reader[row]))


def check(batch, tree, train_mask, advantages, weights):
    """Every trained token once, with its own context, number and credit.

    Returns, per row, the names of the tokens that its targets read.
    """
    names = {}
    for node in paths.trained(train_mask):
        for i, (name, _) in enumerate(paths.response(tree, *node)):
            names[float(tree.behavior_log_probs[node][i])] = (*node, i)
            assert name == (*node, i)
    seen, row_of, reads = set(), {}, [set() for _ in range(batch.num_rows)]
    for row, k in np.argwhere(batch.loss_mask).tolist():
        prompt, slot, i = names[float(batch.behavior_log_probs[row, k])]
        assert (prompt, slot, i) not in seen
        seen.add((prompt, slot, i))
        node = (prompt, slot)
        answer = paths.response(tree, *node)
        context = [*paths.history(tree, *node), *answer[:i]]
        places = read_by(batch, row, batch.source[row, k])
        assert batch.tokens[row, places].tolist() == [token for _, token in context]
        assert batch.positions[row, places].tolist() == list(range(len(context)))
        assert batch.target[row, k] == answer[i][1]
        assert batch.advantages[row, k] == advantages[node]
        assert batch.weights[row, k] == weights[node]
        assert batch.old_log_probs[row, k] == batch.behavior_log_probs[row, k]
        place = (row, int(batch.response_id[row, k]))
        assert row_of.setdefault(node, place) == place
        reads[row] |= {name for name, _ in context}
    assert seen == set(names.values())
    assert len(set(row_of.values())) == len(row_of)
    return reads


def check_padding(batch):
    empty = packing.empty_batch(
        batch.num_rows,
        row_length=batch.tokens.shape[1],
        target_length=batch.target.shape[1],
    )
    for field in dataclasses.fields(batch):
        got, zero = getattr(batch, field.name), getattr(empty, field.name)
        assert got.dtype == zero.dtype and got.shape == zero.shape
        if got.shape == batch.loss_mask.shape:
            np.testing.assert_array_equal(got[~batch.loss_mask], zero[~batch.loss_mask])
    assert (batch.ref_log_probs == 0).all()
    own = np.arange(batch.tokens.shape[1])
    for row in range(batch.num_rows):
        used = set()
        for k in np.flatnonzero(batch.loss_mask[row]):
            used |= set(read_by(batch, row, batch.source[row, k]).tolist())
        rest = [i for i in own if i not in used]
        assert (batch.tokens[row, rest] == 0).all()
        assert (batch.positions[row, rest] == 0).all()
        assert (batch.last_reader[row, rest] == rest).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("branching", [(4,), (2, 2), (2, 3, 1), (2, 2, 2)])
def test_long_rows_hold_each_token_once(seed, branching):
    tree = paths.random_tree(seed, branching=branching)
    batch, *credit = packed(tree, tree.node_mask)
    assert batch.num_rows == 1
    (reads,) = check(batch, tree, tree.node_mask, *credit)
    check_padding(batch)
    assert packing.count_tokens(batch) == len(reads)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spare", [0, 3, 12])
def test_short_rows_split_a_tree_and_repeat_ancestors(seed, spare):
    tree = paths.random_tree(seed, num_prompts=4)
    longest = paths.longest_path(tree, tree.node_mask)
    batch, *credit = packed(tree, tree.node_mask, row_length=longest + spare)
    reads = check(batch, tree, tree.node_mask, *credit)
    check_padding(batch)
    assert packing.count_tokens(batch) >= sum(len(row) for row in reads)
    if spare == 0:
        once = set().union(*reads)
        assert sum(len(row) for row in reads) > len(once)


@pytest.mark.parametrize("seed", SEEDS)
def test_few_targets_split_a_tree(seed):
    tree = paths.random_tree(seed)
    longest = int(tree.response_lengths[tree.node_mask].max())
    batch, *credit = packed(tree, tree.node_mask, target_length=longest)
    check(batch, tree, tree.node_mask, *credit)
    assert batch.target.shape[1] == longest
    needed = tree.response_lengths[tree.node_mask].sum() / longest
    assert needed <= batch.num_rows < tree.node_mask.sum() + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_that_nobody_needs_are_left_out(seed):
    tree = paths.random_tree(seed)
    rng = np.random.default_rng(seed)
    train_mask = tree.node_mask & (rng.random(tree.node_mask.shape) < 0.4)
    batch, *credit = packed(tree, train_mask)
    assert batch.num_rows == 1
    (reads,) = check(batch, tree, train_mask, *credit)
    assert packing.count_tokens(batch) == len(reads)


def test_trees_share_a_row_without_reading_each_other():
    tree = paths.random_tree(3, num_prompts=2)
    batch, *_ = packed(tree, tree.node_mask)
    assert batch.num_rows == 1
    other = paths.random_tree(3, num_prompts=2)
    other.prompt_tokens[0] = (other.prompt_tokens[0] + 1) % paths.VOCABULARY
    changed, *_ = packed(other, other.node_mask)
    assert (changed.tokens != batch.tokens).sum() == tree.prompt_lengths[0]


def test_nothing_to_train_is_no_row():
    tree = paths.random_tree(0)
    batch, *_ = packed(tree, np.zeros_like(tree.node_mask))
    assert batch.num_rows == 0
    assert batch.tokens.shape == (0, LONG)
    assert list(packing.micro_batches(batch, 4)) == []
    assert packing.count_path_tokens(tree, np.zeros_like(tree.node_mask)) == 0


def test_a_path_or_a_response_that_fits_no_row():
    tree = paths.random_tree(1)
    longest = paths.longest_path(tree, tree.node_mask)
    packed(tree, tree.node_mask, row_length=longest)
    message = rf"row_length .*got {longest - 1} .*a path of {longest} tokens.*update\."
    with pytest.raises(ValueError, match=message):
        packed(tree, tree.node_mask, row_length=longest - 1)
    response = int(tree.response_lengths[tree.node_mask].max())
    message = rf"target_length .*{response - 1} for .*a response of {response}"
    with pytest.raises(ValueError, match=message):
        packed(tree, tree.node_mask, target_length=response - 1)


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_micro_batches_have_one_shape_and_lose_nothing(rows):
    tree = paths.random_tree(2, num_prompts=4)
    longest = paths.longest_path(tree, tree.node_mask)
    batch, *_ = packed(tree, tree.node_mask, row_length=longest)
    parts = list(packing.micro_batches(batch, rows))
    assert len(parts) == -(-batch.num_rows // rows)
    assert all(part.num_rows == rows for part in parts)
    whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
    padding = whole.num_rows - batch.num_rows
    empty = packing.empty_batch(
        padding, row_length=longest, target_length=batch.target.shape[1]
    )
    expected = jax.tree.map(lambda *arrays: np.concatenate(arrays), batch, empty)
    jax.tree.map(np.testing.assert_array_equal, whole, expected)
    assert (empty.weights == 0).all() and not empty.loss_mask.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_path_tokens(seed):
    tree = paths.random_tree(seed)
    expected = sum(
        len(paths.history(tree, *node)) + len(paths.response(tree, *node)) - 1
        for node in paths.trained(tree.node_mask)
    )
    assert packing.count_path_tokens(tree, tree.node_mask) == expected


def test_the_shortest_row_counts():
    tree = paths.random_tree(0, branching=(1,), num_prompts=1)
    tree.prompt_lengths[:] = tree.response_lengths[:] = 1
    tree.prompt_tokens[:], tree.response_tokens[:] = 5, 6
    tree.behavior_log_probs[:] = -1.0
    every = np.ones((1, 1), bool)
    batch = packing.pack(
        tree,
        advantages=np.ones((1, 1)),
        weights=np.ones((1, 1)),
        train_mask=every,
        row_length=3,
        target_length=2,
    )
    assert batch.tokens.tolist() == [[5, 0, 0]]
    assert packing.count_tokens(batch) == 1
