"""What a configuration may not be: one clear line for each value that cannot work."""

from typing import Any

from rlvr_jax.config.sections import Config

CHOICES = {
    "model.dtype": ("float32", "bfloat16"),
    "model.thinking": ("template", "on", "off"),
    "tasks.too_long": ("error", "skip"),
    "tasks.verifier": ("", "function"),
    "rollout.expand": ("unsolved", "visible_failed", "all"),
    "eval.expand": ("unsolved", "visible_failed", "all"),
    "objective.surrogate": ("reinforce", "clip", "gspo", "cispo"),
    "objective.kl": ("k2", "k3"),
    "objective.reduction": ("token", "response", "constant", "group"),
    "objective.old_log_probs": ("live", "sampler", "recompute"),
    "objective.tis": ("none", "token", "response"),
    "optimizer.schedule": ("constant", "linear", "cosine"),
}
TARGETS = ("query", "key", "value", "output", "gate", "up", "down")
POSITIVE = (
    "steps",
    "model.unroll",
    "lora.alpha",
    "tasks.generated",
    "tasks.max_prompt_tokens",
    "tasks.verifier_workers",
    "rollout.prompts",
    "rollout.max_response_tokens",
    "rollout.max_feedback_tokens",
    "rollout.temperature",
    "sampler.chunk",
    "update.epochs",
    "update.minibatches",
    "update.rows",
    "update.row_length",
    "update.target_length",
    "update.head_chunk",
    "objective.tis_cap",
    "optimizer.learning_rate",
    "eval.tasks",
    "eval.samples",
    "eval.turns",
    "checkpoint.every",
    "checkpoint.keep",
    "mesh.heartbeat_seconds",
    "mesh.wait_seconds",
)
NOT_NEGATIVE = (
    "lora.rank",
    "rollout.budget",
    "rollout.overlong",
    "objective.clip_low",
    "objective.clip_high",
    "objective.dual_clip",
    "objective.kl_coefficient",
    "objective.entropy_coefficient",
    "optimizer.warmup_steps",
    "optimizer.weight_decay",
    "optimizer.clip_norm",
    "eval.every",
    "eval.temperature",
    "eval.top_k",
    "checkpoint.keep_every",
    "checkpoint.rollouts_every",
)


def _read(config: Config, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def check(config: Config) -> None:
    """Raises ValueError for values that cannot work, one clear line each."""
    for path, choices in CHOICES.items():
        if _read(config, path) not in choices:
            raise ValueError(
                f"{path} must be one of {choices}; got {_read(config, path)!r}"
            )
    for path in POSITIVE:
        if not _read(config, path) > 0:
            raise ValueError(f"{path} must be above 0; got {_read(config, path)}")
    for path in NOT_NEGATIVE:
        if not _read(config, path) >= 0:
            raise ValueError(f"{path} must be 0 or more; got {_read(config, path)}")
    for name, size in zip(("data", "fsdp", "tensor"), config.mesh.sizes, strict=True):
        if size < 1 and size != -1:
            raise ValueError(
                f"mesh.{name} must be 1 or more, or -1 for all devices that the other"
                f" sizes leave; got {size}"
            )
    if config.mesh.sizes.count(-1) > 1:
        raise ValueError(
            "mesh.data, mesh.fsdp and mesh.tensor: one of them may be -1; got"
            f" {config.mesh.sizes}"
        )
    for path in ("optimizer.b1", "optimizer.b2"):
        if not 0 <= _read(config, path) < 1:
            raise ValueError(f"{path} must be in [0, 1); got {_read(config, path)}")
    if config.rollout.overlong > 1:
        raise ValueError(
            "rollout.overlong must be a share of max_response_tokens, at most 1; got"
            f" {config.rollout.overlong}"
        )
    if not 0 < config.eval.top_p <= 1:
        raise ValueError(f"eval.top_p must be in (0, 1]; got {config.eval.top_p}")
    targets = config.lora.targets
    if not targets or len({*TARGETS} & {*targets}) != len(targets):
        raise ValueError(
            f"lora.targets must be some of {TARGETS}, each once; got {targets}"
        )
    _check_verifier(config)
    rollout, update = config.rollout, config.update
    config.credit.check()
    config.credit.check_layout(rollout.layout)
    turns = rollout.layout.num_turns
    longest = config.longest_path(turns)
    if longest > update.row_length:
        raise ValueError(
            f"update.row_length must hold the longest path of {turns} turns, {longest}"
            f" tokens (prompt, responses and feedback); got {update.row_length}"
        )
    if rollout.max_response_tokens > update.target_length:
        raise ValueError(
            "update.target_length must be at least rollout.max_response_tokens"
            f" {rollout.max_response_tokens}; got {update.target_length}"
        )
    if update.minibatches > rollout.prompts:
        raise ValueError(
            f"update.minibatches must be at most rollout.prompts {rollout.prompts};"
            f" got {update.minibatches}"
        )
    _check_objective(config)
    _check_selection(config)
    samples = config.eval.samples
    if not all(1 <= k <= samples for k in config.eval.pass_at):
        raise ValueError(
            f"eval.pass_at must be between 1 and eval.samples {samples};"
            f" got {config.eval.pass_at}"
        )
    if max(config.context_lengths()) < config.longest_context():
        raise ValueError(
            "sampler.context_lengths must reach the longest context,"
            f" {config.longest_context()} tokens; got {config.context_lengths()}"
        )


def _check_verifier(config: Config) -> None:
    """Raises ValueError for reward functions that do not go with the verifier."""
    functions, weights = config.tasks.verifier_functions, config.tasks.verifier_weights
    if config.tasks.verifier == "function" and not functions:
        raise ValueError(
            "tasks.verifier 'function' needs tasks.verifier_functions, for example"
            " ('rewards.py:score',); got none"
        )
    if config.tasks.verifier != "function" and functions:
        raise ValueError(
            f"tasks.verifier_functions {functions} need tasks.verifier 'function'; got"
            f" {config.tasks.verifier!r}"
        )
    if weights and len(weights) != len(functions):
        raise ValueError(
            "tasks.verifier_weights must be one for each of tasks.verifier_functions,"
            f" {len(functions)}, or none; got {weights}"
        )


def _check_objective(config: Config) -> None:
    """Raises ValueError for terms of the loss that cannot work together."""
    objective, update = config.objective, config.update
    if objective.old_log_probs == "live" and update.epochs * update.minibatches > 1:
        raise ValueError(
            "objective.old_log_probs 'live' needs one epoch and one mini-batch; got"
            f" {update.epochs} and {update.minibatches}: use 'sampler' or 'recompute'"
        )
    if objective.clip_low > 1:
        raise ValueError(
            f"objective.clip_low must be at most 1; got {objective.clip_low}"
        )
    if objective.dual_clip and objective.dual_clip <= 1:
        raise ValueError(
            f"objective.dual_clip must be 0 (none) or above 1; got"
            f" {objective.dual_clip}"
        )
    if objective.dual_clip and objective.surrogate not in ("clip", "gspo"):
        raise ValueError(
            f"objective.dual_clip {objective.dual_clip} needs the surrogate 'clip' or"
            f" 'gspo'; got {objective.surrogate!r}: set it to 0"
        )
    if objective.tis != "none" and objective.old_log_probs == "sampler":
        raise ValueError(
            f"objective.tis {objective.tis!r} compares the trainer's log-probs with the"
            " sampler's, but objective.old_log_probs is 'sampler': use 'recompute' or"
            " 'live'"
        )


def _check_selection(config: Config) -> None:
    """Raises ValueError if no tasks can be selected the way that is wanted."""
    bounds = config.tasks.difficulty
    if bounds and not (len(bounds) == 2 and 0 <= bounds[0] <= bounds[1] <= 1):
        raise ValueError(
            "tasks.difficulty must be () or (low, high) with 0 <= low <= high <= 1; got"
            f" {bounds}"
        )
    if (bounds or config.tasks.deduplicate) and config.tasks.source == "programs":
        raise ValueError(
            "tasks.difficulty and tasks.deduplicate select from a data set, but"
            " tasks.source is 'programs': leave them out"
        )
