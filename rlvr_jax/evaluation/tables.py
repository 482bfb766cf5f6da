"""Evaluation results as text, alone or beside an earlier one."""

from typing import Any

from rlvr_jax.evaluation.estimates import mean_interval


def table(result: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    """One line per metric, with 95 % intervals over tasks.

    Args:
        result: of `evaluate`.
        before: of `evaluate` on the same tasks, to show what changed.

    Returns:
        Text. With `before` there is a column of the change in the share of solved
        tasks, paired by task; "-" where `before` did not measure a metric.

    Raises:
        ValueError: `before` was made with other tasks.
    """
    if before is None:
        lines = [f"{'metric':<18} {'value':>22}"]
        for name, row in result["metrics"].items():
            lines.append(f"{name:<18} {_interval(row):>22}")
        return _with_controls(lines, result)
    if [row["id"] for row in before["tasks"]] != [row["id"] for row in result["tasks"]]:
        raise ValueError("--compare must name a result on the same tasks")
    lines = [f"{'metric':<18} {'before':>22} {'after':>22} {'change':>24}"]
    for name, row in result["metrics"].items():
        was, change = "-", ""
        if name in before["metrics"]:
            was = _interval(before["metrics"][name])
            change = _change(name, before, result)
        lines.append(f"{name:<18} {was:>22} {_interval(row):>22} {change:>24}")
    return _with_controls(lines, result)


def _with_controls(lines: list[str], result: dict[str, Any]) -> str:
    """The table's lines, and whether retries use their feedback if it was measured."""
    controls = dict(result.get("controls", {}))
    if controls:
        count = controls.pop("attempts")
        lines.append(f"P(solved on turn 2 | failed turn 1), {count} attempts:")
        lines += [f"  {name:<18} {_interval(row)}" for name, row in controls.items()]
    return "\n".join(lines)


def _interval(row: dict[str, float]) -> str:
    return f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _change(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Paired by task: Iter-k and Ver@K, and pass@1, which is their first."""
    kind, _, number = name.removeprefix("eval/").rpartition("_")
    if kind not in ("iter", "ver") and name != "eval/pass_at_1":
        return ""
    turn = int(number) - 1
    changes = [
        now["correct"][turn] / now["samples"] - was["correct"][turn] / was["samples"]
        for was, now in zip(before["tasks"], after["tasks"], strict=True)
        if was["samples"] and now["samples"]
    ]
    row = mean_interval(changes)
    return f"{row['mean']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
