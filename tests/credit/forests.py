"""Random ragged forests for hypothesis, with junk in every slot that is not there."""

import dataclasses

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st

from rlvr_jax.tree import TreeLayout

# Fixed sizes, so that JAX compiles each operation once for all examples.
ROWS, NODES, TURNS = 2, 9, 4
BRANCHINGS = [(3, 2), (2, 1, 2), (4,)]
JUNK = [np.nan, np.inf, -np.inf, 1e30, -7.0]
# Steps of 1/8 keep spreads far from the threshold of an equal group, so float32 and
# float64 cannot fall on different sides of it.
REWARDS = [k / 8 for k in range(9)]

checked = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)


@dataclasses.dataclass(frozen=True)
class Forest:
    rewards: np.ndarray
    parents: object
    mask: np.ndarray
    solved: np.ndarray

    @property
    def arrays(self):
        return self.rewards, self.parents, self.mask


def rewards_of(draw, mask):
    count = mask.size
    real = draw(st.lists(st.sampled_from(REWARDS), min_size=count, max_size=count))
    junk = draw(st.lists(st.sampled_from(JUNK), min_size=count, max_size=count))
    return np.where(mask, np.reshape(real, mask.shape), np.reshape(junk, mask.shape))


def bools(draw, count):
    return draw(st.lists(st.booleans(), min_size=count, max_size=count))


def random_parents(draw):
    """A topologically ordered forest of at most TURNS levels."""
    parents, turns = [], []
    for node in range(NODES):
        parent = draw(st.integers(-1, node - 1))
        if parent >= 0 and turns[parent] == TURNS - 1:
            parent = -1
        parents.append(parent)
        turns.append(turns[parent] + 1 if parent >= 0 else 0)
    return parents


@st.composite
def forests(draw, per_row, closed=None):
    """Array parents. Either any node may be absent (a present node below it then adds
    to nobody), or, `closed`, whole subtrees are and their slots hold junk parents."""
    rows = ROWS if per_row else 1
    parents = np.array([random_parents(draw) for _ in range(rows)], np.int32)
    mask = np.reshape(bools(draw, ROWS * NODES), (ROWS, NODES)).copy()
    if draw(st.booleans()):
        mask |= np.reshape(bools(draw, ROWS * NODES), (ROWS, NODES))
    if draw(st.booleans()) if closed is None else closed:
        for b in range(ROWS):
            mask[b] = closed_under_ancestors(mask[b], parents[b if per_row else 0])
        unused = ~mask if per_row else ~mask.any(axis=0, keepdims=True)
        junk = draw(st.sampled_from([-7, NODES, NODES - 1, 2**31 - 1]))
        parents = np.where(unused, junk, parents).astype(np.int32)
    solved = np.reshape(bools(draw, ROWS * NODES), (ROWS, NODES))
    rewards = rewards_of(draw, mask).astype(np.float32)
    return Forest(rewards, parents if per_row else parents[0], mask, solved)


@st.composite
def trees(draw):
    """A static layout with any subset of its slots present."""
    layout = TreeLayout(branching=draw(st.sampled_from(BRANCHINGS)))
    shape = (ROWS, layout.num_nodes)
    mask = np.reshape(bools(draw, shape[0] * shape[1]), shape).copy()
    if draw(st.booleans()):
        mask |= np.reshape(bools(draw, shape[0] * shape[1]), shape)
    solved = np.reshape(bools(draw, shape[0] * shape[1]), shape)
    rewards = rewards_of(draw, mask).astype(np.float32)
    return Forest(rewards, layout, mask, solved)


def closed_under_ancestors(mask, parents):
    mask = mask.copy()
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[..., node] &= mask[..., parent]
    return mask


def grown(forest):
    """The same layout, with only the nodes whose ancestors are all there."""
    mask = closed_under_ancestors(forest.mask, forest.parents.parents)
    rewards = np.where(mask, forest.rewards, np.float32(np.nan))
    return dataclasses.replace(forest, mask=mask, rewards=rewards)


any_forest = st.one_of(forests(per_row=False), forests(per_row=True), trees())
# The turn of a node below an absent one is known to a layout only: in an array the
# absent parent's own parent may hold anything. MeRS divides by it, MaRS does not.
turned_forest = st.one_of(
    forests(per_row=False, closed=True), forests(per_row=True, closed=True), trees()
)
# A present node below an absent one belongs to no trajectory and to no budget.
closed_forest = st.one_of(
    forests(per_row=False, closed=True),
    forests(per_row=True, closed=True),
    trees().map(grown),
)


def num_turns(forest):
    layout = forest.parents
    return layout.num_turns if isinstance(layout, TreeLayout) else TURNS


def agree(actual, expected, forest, tolerance=1e-5):
    actual = np.asarray(actual)
    assert actual.dtype == np.float32
    assert actual.shape == forest.mask.shape
    np.testing.assert_array_equal(actual[~forest.mask], 0.0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
