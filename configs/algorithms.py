"""Algorithm presets: each is a handful of settings of the same machine.

`turns` is the number of attempts that the algorithm is made for; a configuration
chooses the branching for it.
"""

from ml_collections import ConfigDict

SETTINGS = {
    # One attempt, compared with its siblings.
    "grpo": {"turns": 1},
    # One retry after a verified failure; all attempts of a prompt share one baseline.
    "reapo": {
        "turns": 2,
        "credit.group": "prompt",
        "objective.surrogate": "reinforce",
    },
    # Trees; an attempt is credited with the best of its descendants.
    "murphy_mars": {
        "turns": 2,
        "credit.backup": "mars",
        "objective.reduction": "group",
    },
    # Trees; an attempt is credited with the discounted mean of its descendants.
    "murphy_mers": {
        "turns": 2,
        "credit.backup": "mers",
        "objective.reduction": "group",
    },
}


def apply(
    config: ConfigDict, algorithm: str, branchings: dict[int, tuple[int, ...]]
) -> ConfigDict:
    """Sets the fields of a preset, and the branching for its number of turns.

    Args:
        config: changed in place, and returned.
        algorithm: a name of `SETTINGS`.
        branchings: branching per number of turns.
    """
    if algorithm not in SETTINGS:
        raise ValueError(
            f"algorithm must be one of {', '.join(SETTINGS)}; got {algorithm!r}"
        )
    config.algorithm = algorithm
    for field, value in SETTINGS[algorithm].items():
        if field == "turns":
            config.rollout.branching = branchings[value]
        else:
            config.update_from_flattened_dict({field: value})
    return config
