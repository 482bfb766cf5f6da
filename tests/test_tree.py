"""Slots of a tree: by hand, and against the tree drawn node by node."""

import jax
import numpy as np
import pytest

from rlvr_jax.tree import NO_PARENT, TreeLayout, empty_tree


def test_layout_by_hand():
    layout = TreeLayout((2, 3, 1))
    assert layout.num_turns == 3
    assert layout.num_nodes == 14
    assert layout.turn_sizes == (2, 6, 6)
    assert layout.parents.tolist() == [-1, -1, 0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    assert layout.turns.tolist() == [0, 0, *[1] * 6, *[2] * 6]
    assert layout.turn_slice(0) == slice(0, 2)
    assert layout.turn_slice(1) == slice(2, 8)
    assert layout.turn_slice(2) == slice(8, 14)
    assert list(layout.children(1)) == [5, 6, 7]
    assert list(layout.children(7)) == [13]
    assert list(layout.children(8)) == []
    assert layout.parents.dtype == layout.turns.dtype == np.int32


@pytest.mark.parametrize("branching", [(1,), (4,), (1, 1, 1), (3, 1, 2), (2, 4, 3, 2)])
def test_parents_children_turns_and_slices_agree(branching):
    layout = TreeLayout(branching)
    born = [NO_PARENT] * branching[0]
    for slot in range(layout.num_nodes):
        children = list(layout.children(slot))
        assert children == list(range(len(born), len(born) + len(children)))
        born += [slot] * len(children)
        assert all(layout.turns[c] == layout.turns[slot] + 1 for c in children)
    assert layout.parents.tolist() == born
    for turn in range(layout.num_turns):
        slots = np.flatnonzero(layout.turns == turn).tolist()
        assert list(range(layout.num_nodes))[layout.turn_slice(turn)] == slots
        assert len(slots) == layout.turn_sizes[turn]


def test_layouts_are_static_values():
    assert TreeLayout((np.int64(2), 3)) == TreeLayout((2, 3))
    assert hash(TreeLayout([2, 3])) == hash(TreeLayout((2, 3)))
    assert TreeLayout((2, 3)) != TreeLayout((3, 2))


@pytest.mark.parametrize("branching", [(), (0,), (2, 0), (-1, 2), (2.0,), ("2",)])
def test_impossible_branching(branching):
    with pytest.raises(ValueError, match="branching must hold one integer >= 1"):
        TreeLayout(branching)


def test_an_empty_tree_has_nothing_in_it():
    layout = TreeLayout((2, 2))
    tree = empty_tree(
        layout, num_prompts=3, prompt_length=4, response_length=5, feedback_length=7
    )
    assert tree.num_prompts == 3
    shapes = {
        "prompt_tokens": (3, 4),
        "prompt_lengths": (3,),
        "response_tokens": (3, 6, 5),
        "behavior_log_probs": (3, 6, 5),
        "feedback_tokens": (3, 6, 7),
    }
    for name, array in vars(tree).items():
        if name != "layout":
            assert array.shape == shapes.get(name, (3, 6)), name
            assert not array.any()
    leaves, structure = jax.tree.flatten(tree)
    assert len(leaves) == 12
    assert jax.tree.unflatten(structure, leaves).layout == layout
