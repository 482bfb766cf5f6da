"""Algorithm presets: each is a handful of settings of the same machine."""

from ml_collections import ConfigDict

SETTINGS = {
    # One attempt, compared with its siblings.
    "grpo": {"rollout.branching": (16,)},
    # One retry after a verified failure; all attempts of a prompt share one baseline.
    "reapo": {
        "rollout.branching": (16, 1),
        "credit.group": "prompt",
        "objective.surrogate": "reinforce",
    },
    # Trees; an attempt is credited with the best of its descendants.
    "murphy_mars": {
        "rollout.branching": (8, 8),
        "credit.backup": "mars",
        "objective.reduction": "group",
    },
    # Trees; an attempt is credited with the discounted mean of its descendants.
    "murphy_mers": {
        "rollout.branching": (8, 8),
        "credit.backup": "mers",
        "objective.reduction": "group",
    },
}


def apply(config: ConfigDict, algorithm: str) -> ConfigDict:
    """Sets the fields of a preset.

    Args:
        config: changed in place, and returned.
        algorithm: a name of `SETTINGS`.

    Raises:
        ValueError: there is no such preset.
    """
    if algorithm not in SETTINGS:
        raise ValueError(
            f"algorithm must be one of {', '.join(SETTINGS)}; got {algorithm!r}"
        )
    config.algorithm = algorithm
    for field, value in SETTINGS[algorithm].items():
        config.update_from_flattened_dict({field: value})
    return config
