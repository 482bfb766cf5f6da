"""Algorithm presets: each is a handful of settings of the same machine.

docs/algorithms.md has them as a table, with the papers and where we differ.
"""

from ml_collections import ConfigDict

# One attempt, and several attempts in a chain, with the sizes of the papers.
_GROUP, _CHAINS, _TREE = (16,), (16, 1), (8, 8)
# A bound on the ratio acts only where the policy has moved since it sampled.
_SEVERAL_UPDATES = {"update.minibatches": 4, "objective.old_log_probs": "recompute"}
# -A Σ logp: the gradient of whole responses, up to the constant limit.
_WHOLE_RESPONSES = {
    "objective.surrogate": "reinforce",
    "objective.reduction": "constant",
}

SETTINGS = {
    # One attempt, compared with its siblings.
    "grpo": {"rollout.branching": _GROUP, "objective.reduction": "response"},
    # Neither the standard deviation nor the length divides.
    "dr_grpo": {
        "rollout.branching": _GROUP,
        "credit.scale": "none",
        "objective.reduction": "constant",
    },
    # More room above 1, tokens count alike, long answers cost.
    "dapo": {
        "rollout.branching": _GROUP,
        "rollout.overlong": 0.2,
        "objective.clip_low": 0.2,
        "objective.clip_high": 0.28,
        "objective.reduction": "token",
        **_SEVERAL_UPDATES,
    },
    # One ratio per response.
    "gspo": {
        "rollout.branching": _GROUP,
        "objective.surrogate": "gspo",
        "objective.clip_low": 3e-4,
        "objective.clip_high": 4e-4,
        "objective.reduction": "response",
        **_SEVERAL_UPDATES,
    },
    # A bounded weight; no token loses its gradient.
    "cispo": {
        "rollout.branching": _GROUP,
        "objective.surrogate": "cispo",
        "objective.clip_high": 4.0,
        "objective.reduction": "token",
        **_SEVERAL_UPDATES,
    },
    # Compared with the mean of the others.
    "rloo": {
        "rollout.branching": _GROUP,
        "credit.baseline": "leave_one_out",
        "credit.scale": "none",
        **_WHOLE_RESPONSES,
    },
    # Divided by the success rate: rare successes weigh more.
    "maxrl": {
        "rollout.branching": _GROUP,
        "credit.scale": "mean",
        **_WHOLE_RESPONSES,
    },
    # Centred among siblings, then whitened over the batch.
    "reinforce_pp": {
        "rollout.branching": _GROUP,
        "credit.scale": "none",
        "credit.whiten": True,
        "objective.reduction": "token",
    },
    # Retries; every attempt of a trajectory is credited with its best one.
    "multi_attempt_grpo": {
        "rollout.branching": _CHAINS,
        "credit.backup": "trajectory",
        "credit.level": "trajectory",
    },
    # Always two attempts and no verdict; improving on the first pays.
    "score": {
        "rollout.branching": _CHAINS,
        "rollout.expand": "all",
        "rollout.feedback": "Check your answer, then answer again.",
        "credit.progress_bonus": 10.0,
        "credit.group": "stage",
        "credit.baseline": "leave_one_out",
        "credit.scale": "none",
        "objective.kl_coefficient": 0.01,
        **_WHOLE_RESPONSES,
    },
    # Retries; attempt k is compared with other k-th ones, early ones weigh less.
    "cal_grpo": {
        "rollout.branching": _CHAINS,
        "credit.group": "stage",
        "credit.weight": "calibrated",
    },
    # One retry after a verified failure; all attempts of a prompt share one baseline.
    "reapo": {
        "rollout.branching": _CHAINS,
        "credit.group": "prompt",
        "objective.surrogate": "reinforce",
    },
    # Trees; an attempt is credited with the best of its descendants.
    "murphy_mars": {
        "rollout.branching": _TREE,
        "credit.backup": "mars",
        "objective.reduction": "group",
    },
    # Trees; an attempt is credited with the discounted mean of its descendants.
    "murphy_mers": {
        "rollout.branching": _TREE,
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
