"""Random ragged trees, and what training must see of them: one path at a time.

`tokens_of` walks from a node to its prompt with plain loops; nothing here knows about
rows, so that packed batches can be held against it.
"""

import numpy as np

from rlvr_jax.tree import NO_PARENT, RolloutTree, TreeLayout, empty_tree

VOCABULARY = 40
JUNK = 10**6  # far outside every array: whoever reads padding finds out


def random_tree(seed: int, *, branching=(2, 2, 2), num_prompts=3) -> RolloutTree:
    """A ragged tree: absent nodes, context-only nodes, cut responses, junk in padding.

    Each behavior log-prob stands once in the tree, so that it names its token.
    """
    rng = np.random.default_rng(seed)
    layout = TreeLayout(branching)
    tree = empty_tree(
        layout,
        num_prompts=num_prompts,
        prompt_length=5,
        response_length=5,
        feedback_length=4,
    )
    for array in (tree.prompt_tokens, tree.response_tokens, tree.feedback_tokens):
        array[:] = JUNK
    for array in (tree.response_lengths, tree.feedback_lengths):
        array[:] = JUNK
    tree.rewards[:] = np.nan
    tree.behavior_log_probs[:] = np.nan
    names = iter(range(1, 10**6))

    def fill(array, length):
        array[:length] = rng.integers(0, VOCABULARY, length)

    for prompt in range(num_prompts):
        tree.prompt_lengths[prompt] = rng.integers(1, 6)
        fill(tree.prompt_tokens[prompt], tree.prompt_lengths[prompt])
        for slot, parent in enumerate(layout.parents.tolist()):
            reached = parent == NO_PARENT or tree.context_mask[prompt, parent]
            if not reached or rng.random() < 0.2:
                continue
            here = (prompt, slot)
            length = int(rng.choice([1, 2, 3, 5]))
            tree.context_mask[here] = True
            tree.node_mask[here] = rng.random() < 0.8
            tree.response_lengths[here] = length
            fill(tree.response_tokens[here], length)
            tree.behavior_log_probs[here][:length] = [
                -next(names) / 1024 for _ in range(length)
            ]
            tree.truncated[here] = rng.random() < 0.4
            tree.rewards[here] = rng.random()
            tree.feedback_lengths[here] = 0
            if len(layout.children(slot)) and not tree.truncated[here]:
                tree.feedback_lengths[here] = rng.integers(0, 5)
                fill(tree.feedback_tokens[here], tree.feedback_lengths[here])
    return tree


def random_credit(tree: RolloutTree, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Advantages and positive weights of the nodes; NaN where there is none."""
    rng = np.random.default_rng(seed)
    shape = tree.node_mask.shape
    advantages = rng.normal(size=shape).astype(np.float32)
    weights = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    absent = ~tree.node_mask
    advantages[absent] = weights[absent] = np.nan
    return advantages, weights


def history(tree: RolloutTree, prompt: int, slot: int) -> list[tuple]:
    """What a node's first token is predicted from: pairs (name of the token, id)."""
    chain = []
    parent = int(tree.layout.parents[slot])
    while parent != NO_PARENT:
        chain.insert(0, parent)
        parent = int(tree.layout.parents[parent])
    ids = tree.prompt_tokens[prompt, : tree.prompt_lengths[prompt]].tolist()
    read = [((prompt, "prompt", i), token) for i, token in enumerate(ids)]
    for node in chain:
        read += response(tree, prompt, node)
        ids = tree.feedback_tokens[prompt, node, : tree.feedback_lengths[prompt, node]]
        read += [((prompt, node, "after", i), token) for i, token in enumerate(ids)]
    return read


def response(tree: RolloutTree, prompt: int, slot: int) -> list[tuple]:
    """The response of a node: pairs (name of the token, id)."""
    ids = tree.response_tokens[prompt, slot, : tree.response_lengths[prompt, slot]]
    return [((prompt, slot, i), int(token)) for i, token in enumerate(ids)]


def trained(train_mask: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (prompt, slot)."""
    return [(int(b), int(n)) for b, n in np.argwhere(train_mask)]


def longest_path(tree: RolloutTree, train_mask: np.ndarray) -> int:
    """Tokens of the longest row that holds one path: its last token is not read."""
    return max(
        len(history(tree, *node)) + len(response(tree, *node)) - 1
        for node in trained(train_mask)
    )
