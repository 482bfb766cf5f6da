"""What each rule truly climbs, by enumeration: prints the tables as Markdown.

    python tests/credit/exact_gradients.py

A rule maps (rewards, layout, mask) of every outcome of a group to advantages. Ratios
are <estimator, gradient> / <gradient, gradient>, per first attempt, so that an exact
rule has 1 (leave-one-out) or (G - 1) / G (a mean that holds the own reward).
"""

import os
import pathlib
import sys
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

# Run as a file, Python looks for modules beside it and not in the repository.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from rlvr_jax import credit
from tests.credit import toy as toys

TINY = 1e-12  # an epsilon that changes nothing in float32
SETTINGS = [(0.7, 0.3), (0.3, 0.3), (0.2, 0.5)]


def turn_logits(*success: float) -> np.ndarray:
    """Parameters [K, 2] of a policy with its own success probability per attempt."""
    return np.array([[np.log(p / (1 - p)), 0.0] for p in success])


# A wrong first answer decides how likely the second is right: .6 after 1, .1 after 2.
HISTORY = np.log([[0.4, 0.3, 0.3], [0.5, 0.25, 0.25], [0.6, 0.2, 0.2], [0.1, 0.4, 0.5]])


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    size = np.linalg.norm(one) * np.linalg.norm(other)
    return float((one * other).sum() / size) if size > 0 else 0.0


def ratio(one: np.ndarray, other: np.ndarray) -> float:
    """How far `one` goes along `other`, in lengths of `other`."""
    return float((one * other).sum() / (other * other).sum())


def own(rewards, layout, mask):
    """Raw rewards, no baseline."""
    return jnp.where(mask, rewards, 0.0)


def grouped(
    group: str = "sibling", backup: str = "own", discount: float = 0.9, **options
) -> toys.Rule:
    """A rule from the kernels' parts: which returns, which group, which centring."""

    def rule(rewards, layout, mask):
        turns = {"num_turns": layout.num_turns}
        returns = {
            "own": lambda: own(rewards, layout, mask),
            "mars": lambda: credit.mars(rewards, layout, mask, **turns),
            "mers": lambda: credit.mers(
                rewards, layout, mask, discount=discount, **turns
            ),
        }[backup]()
        groups = {
            "sibling": lambda: credit.sibling_groups(layout),
            "prompt": lambda: credit.prompt_groups(layout),
            "stage": lambda: credit.stage_groups(layout, **turns),
        }[group]()
        return credit.group_advantages(returns, groups, mask, **options)

    return rule


def weighted(rule: toys.Rule, weights: Callable) -> toys.Rule:
    def product(rewards, layout, mask):
        return rule(rewards, layout, mask) * weights(rewards, layout, mask)

    return product


def plug_in(rewards, layout, mask):
    """Success rates of the group itself in place of the true probabilities."""
    turns = {"num_turns": layout.num_turns}
    return credit.calibrated_weights(rewards, layout, mask, **turns)


def true_weights(*success: float) -> Callable:
    """w_k = product of (1 - p_j) over the later attempts."""
    later = [float(np.prod([1 - p for p in success[k + 1 :]])) for k in range(9)]
    return lambda rewards, layout, mask: np.array(later, np.float32)[layout.turns][None]


def failure_weights(*success: float) -> Callable:
    """c_k = 1 + the failures expected after a failure at k."""
    costs = [1.0]
    for p in success[:0:-1]:
        costs.insert(0, 1 + (1 - p) * costs[0])
    return lambda rewards, layout, mask: np.array(costs, np.float32)[layout.turns][None]


def trajectory_centred(rewards, layout, mask):
    """Multi-attempt credit without the standard deviation."""
    turns = {"num_turns": layout.num_turns}
    returns = credit.trajectory(rewards, layout, mask, **turns)
    roots = mask & (layout.turns == 0)[None]
    top = credit.group_advantages(
        returns, credit.prompt_groups(layout), roots, scale="none"
    )
    root_of = np.arange(layout.num_nodes)
    for node, parent in enumerate(layout.parents):
        root_of[node] = node if parent < 0 else root_of[parent]
    return jnp.where(mask, top[:, root_of], 0.0)


def with_turns(name: str, **options) -> toys.Rule:
    """A whole algorithm of the package that needs the number of turns."""

    def rule(rewards, layout, mask):
        turns = {"num_turns": layout.num_turns}
        return getattr(credit, name)(rewards, layout, mask, **turns, **options)

    return rule


SINGLE = {
    "`rloo`": credit.rloo,
    "`dr_grpo`": credit.dr_grpo,
    "`maxrl`": credit.maxrl,
    "`grpo`": credit.grpo,
}
CHAINS = {
    "`multi_attempt_grpo`": with_turns("multi_attempt_grpo"),
    "trajectory, no std": trajectory_centred,
    "`murphy` mars": with_turns("murphy"),
    "`cal_grpo`": with_turns("cal_grpo"),
    "calibrated, no std": weighted(grouped("stage", scale="none"), plug_in),
    "raw, plug-in weights": weighted(own, plug_in),
    "stage, weight 1": grouped("stage"),
    "raw, weight 1": own,
    "`reapo`": credit.reapo,
    "pooled, no std": grouped("prompt", scale="none"),
}
TURN_RULES = {
    "`reapo`": credit.reapo,
    "pooled, no std": grouped("prompt", scale="none"),
    "`murphy` mars": with_turns("murphy"),
    "mars, no std": grouped(backup="mars", scale="none"),
    "`murphy` mers": with_turns("murphy", backup="mers"),
    "mers, no std": grouped(backup="mers", scale="none"),
    "`multi_attempt_grpo`": with_turns("multi_attempt_grpo"),
    "`cal_grpo`": with_turns("cal_grpo"),
    "stage, weight 1": grouped("stage"),
}


def turn_game(kind: str) -> toys.Toy:
    """Two answers whose own reward is the same. Answer 1 is asked again, 0 is not.

    `constant`: every reward is .5. `useless`: a fair coin, then always 0. `chance`: a
    fair coin each time. `ungraded`: a coin each time, and every failure retries.
    """
    coin, fail = ((0.5, 0.5),) * 2, ((1.0, 0.0),) * 2
    again = ((False, False), (True, True))
    if kind == "constant":
        sure = ((1.0,),) * 2
        return toys.Toy((4, 1), (sure, sure), (0.5,), ((False,), (True,)))
    second = fail if kind == "useless" else coin
    retries = ((True, False),) * 2 if kind == "ungraded" else again
    return toys.Toy((4, 1), (coin, second), (0.0, 1.0), retries)


def turn_bonus(kind: str, rule: toys.Rule) -> float:
    """Expected gradient on the first attempt's logit of the answer asked again."""
    theta = np.zeros((2, 2))
    return float(toys.expected_gradient(turn_game(kind), theta, "stage", rule)[0, 1])


def markdown(header: list[str], rows: list[list]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = [
        [c if isinstance(c, str) else f"{round(c, 3) + 0.0:.3f}" for c in row]
        for row in lines
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def single_table() -> str:
    rows = {name: [name] for name in SINGLE}
    success = (0.1, 0.3, 0.7, 0.9)
    toy = toys.gated((4,))
    for objective in (toys.pass_at(1), toys.truncated_likelihood(3)):
        for p in success:
            theta = turn_logits(p)
            target = toys.gradient_of(toy, theta, "stage", objective)
            for name, rule in SINGLE.items():
                found = toys.expected_gradient(toy, theta, "stage", rule)
                rows[name].append(ratio(found, target))
    names = ("pass@1", "log p to order 3")
    header = ["rule", *(f"{name}, p={p}" for name in names for p in success)]
    return markdown(header, list(rows.values()))


def chain_table() -> str:
    rows = {name: [name] for name in CHAINS}
    toy = toys.gated((4, 1))
    for success in SETTINGS:
        theta = turn_logits(*success)
        target = toys.gradient_of(toy, theta, "stage", toys.solved_at_last)
        fewer = -toys.gradient_of(toy, theta, "stage", toys.expected_failures)
        for name, rule in CHAINS.items():
            found = toys.expected_gradient(toy, theta, "stage", rule)
            one, two = (ratio(found[k], target[k]) for k in (0, 1))
            by_attempt = f"{one:.3f} / {two:.3f}"
            rows[name] += [by_attempt, cosine(found, target), cosine(found, fewer)]
    columns = ["attempt 1 / 2", "cos Ver@2", "cos failures"]
    header = [f"{column}, {p}" for p in SETTINGS for column in columns]
    return markdown(["rule", *header], list(rows.values()))


def longer_table() -> str:
    """Three attempts; and wrong answers that differ in what they teach."""
    rows = {name: [name] for name in CHAINS}
    for toy, theta, sharing in (
        (toys.gated((3, 1, 1)), turn_logits(0.5, 0.3, 0.2), "stage"),
        (toys.gated((4, 1), num_answers=3), HISTORY, "history"),
    ):
        target = toys.gradient_of(toy, theta, sharing, toys.solved_at_last)
        fewer = -toys.gradient_of(toy, theta, sharing, toys.expected_failures)
        for name, rule in CHAINS.items():
            found = toys.expected_gradient(toy, theta, sharing, rule)
            rows[name] += [cosine(found, target), cosine(found, fewer)]
    columns = ["cos Ver@K", "cos failures"]
    kinds = ["three attempts", "history"]
    header = [f"{column}, {kind}" for kind in kinds for column in columns]
    return markdown(["rule", *header], list(rows.values()))


def tree_table() -> str:
    """Trees of (3, 2): first attempts against their own closed form."""
    rows = []
    forms = {
        "mars": toys.solved_at_last,
        "mers": lambda toy, policy: toys.mean_backup(toy, policy, 0.9),
    }
    for backup, form in forms.items():
        for scale in ("none", "std"):
            row = [f"{backup}, scale {scale}"]
            for success in SETTINGS:
                toy, theta = toys.gated((3, 2)), turn_logits(*success)
                rule = grouped(backup=backup, scale=scale)
                found = toys.expected_gradient(toy, theta, "stage", rule)
                target = toys.gradient_of(toy, theta, "stage", form)
                own_field = toys.gradient_of(toy, theta, "stage", toys.own_attempts)
                first = ratio(found[0], target[0])
                row += [first, ratio(found[1], own_field[1]), cosine(found, target)]
            rows.append(row)
    columns = ["attempt 1 / form", "attempt 2 / own", "cos form"]
    header = [f"{c}, {p}" for p in SETTINGS for c in columns]
    return markdown(["backup", *header], rows)


def pooled_table() -> str:
    """Size and direction of what the pooled mean adds to the raw rewards."""
    rows = []
    for rollouts in (1, 2, 4):
        row = [str(rollouts)]
        for success in SETTINGS:
            toy, theta = toys.gated((rollouts, 1)), turn_logits(*success)
            raw = toys.expected_gradient(toy, theta, "stage", own)
            rule = grouped("prompt", scale="none")
            added = toys.expected_gradient(toy, theta, "stage", rule) - raw
            inverse = toys.gradient_of(toy, theta, "stage", toys.inverse_attempts)
            size = np.linalg.norm(added) / np.linalg.norm(raw)
            row += [float(size), cosine(added, -inverse)]
        rows.append(row)
    columns = ["added / raw", "cos -E[1/tau]"]
    header = [f"{c}, {p}" for p in SETTINGS for c in columns]
    return markdown(["G", *header], rows)


def turn_table() -> str:
    kinds = ("ungraded", "constant", "useless", "chance")
    rows = [
        [name, *(turn_bonus(kind, rule) for kind in kinds)]
        for name, rule in TURN_RULES.items()
    ]
    return markdown(["rule", *kinds], rows)


TABLES = {
    "One attempt, G = 4": single_table,
    "Two attempts, own parameters each, G = 4": chain_table,
    "Three attempts (G = 3), and a history-dependent policy (G = 4)": longer_table,
    "Trees of (3, 2)": tree_table,
    "What the pooled mean adds to raw rewards": pooled_table,
    "Is another turn paid?": turn_table,
}

if __name__ == "__main__":
    # Many small programs, each run once: compiling them well is not worth its time.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    for title, table in TABLES.items():
        print(f"### {title}\n\n{table()}\n")
