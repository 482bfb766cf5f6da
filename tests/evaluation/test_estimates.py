"""pass@k and intervals by hand, and tables of two results."""

import itertools
import math

import pytest

from rlvr_jax.evaluation import mean_interval, pass_at_k, table


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (32, 3, 8, 0.591935),
        (5, 2, 2, 0.7),
        (5, 2, 1, 0.4),
        (5, 2, 5, 1.0),
        (4, 0, 4, 0.0),
        (4, 4, 1, 1.0),
        (1, 1, 1, 1.0),
        # n - c < k: no choice of k misses every correct one.
        (5, 3, 3, 1.0),
    ],
)
def test_pass_at_k_fixtures(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_pass_at_k_counts_the_subsets_with_a_correct_sample(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        subsets = list(itertools.combinations(range(n), k))
        hits = sum(min(subset) < c for subset in subsets)
        assert pass_at_k(n, c, k) == pytest.approx(hits / len(subsets))


@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (2, 1, 5, r"k must be in \[1, num_samples = 2\]; got 5"),
        (2, 1, 0, r"k must be in \[1, num_samples = 2\]; got 0"),
        (2, 3, 1, r"num_correct must be in \[0, num_samples = 2\]; got 3"),
        (2, -1, 1, r"num_correct must be in \[0, num_samples = 2\]; got -1"),
    ],
)
def test_pass_at_k_refuses(n, c, k, message):
    with pytest.raises(ValueError, match=message):
        pass_at_k(n, c, k)


def test_the_interval_is_of_the_mean_over_tasks():
    # Deviations -.5, .5, 0 and a sample variance of .25.
    row = mean_interval([0.0, 1.0, 0.5])
    half = 1.96 * 0.5 / math.sqrt(3)
    assert row["mean"] == pytest.approx(0.5)
    assert row["low"] == pytest.approx(0.5 - half)
    assert row["high"] == pytest.approx(0.5 + half)
    assert mean_interval([0.25]) == {"mean": 0.25, "low": 0.25, "high": 0.25}


def result(correct, *, ids=None, samples=4, name="iter"):
    """What `evaluate` returns, for rows of correct chains per turn."""
    rows = [
        {"id": name, "correct": turns, "samples": samples, "no_answer": 0}
        for name, turns in zip(ids or range(len(correct)), correct, strict=True)
    ]
    metrics = {
        f"eval/{name}_{turn + 1}": mean_interval(
            [row["correct"][turn] / samples for row in rows]
        )
        for turn in range(len(correct[0]))
    }
    metrics["eval/pass_at_1"] = metrics[f"eval/{name}_1"]
    metrics["eval/no_answer"] = mean_interval([0.0] * len(rows))
    return {"metrics": metrics, "tasks": rows}


def test_a_table_has_a_line_per_metric():
    lines = table(result([[1, 2], [3, 4]])).splitlines()
    assert len(lines) == 5
    assert lines[1].split() == ["eval/iter_1", "0.500", "[0.010,", "0.990]"]


def test_a_comparison_is_paired_by_task():
    # Both tasks gain exactly one chain of four: the change has no spread.
    text = table(result([[2, 2], [4, 4]]), result([[1, 2], [3, 4]]))
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert lines["eval/iter_1"].endswith("+0.250 [+0.250, +0.250]")
    assert lines["eval/iter_2"].endswith("+0.000 [+0.000, +0.000]")
    assert lines["eval/pass_at_1"].endswith("+0.250 [+0.250, +0.250]")
    assert lines["eval/iter_1"].split()[1:3] == ["0.500", "[0.010,"]


@pytest.mark.parametrize("ids", [("b", "a"), ("a", "c")])
def test_a_comparison_with_other_tasks_is_refused(ids):
    after = result([[2], [4]], ids=("a", "b"))
    with pytest.raises(ValueError, match="--compare must name a result on the same ta"):
        table(after, result([[1], [3]], ids=ids))


@pytest.mark.parametrize(
    "before",
    [result([[1], [3]]), result([[1, 2], [3, 4]], name="ver")],
    ids=["fewer turns", "another protocol"],
)
def test_a_comparison_shows_no_change_of_what_was_not_measured(before):
    text = table(result([[2, 2], [4, 4]]), before)
    lines = {line.split()[0]: line.split() for line in text.splitlines()}
    assert lines["eval/iter_2"][1:] == ["-", "0.750", "[0.260,", "1.240]"]
    assert lines["eval/pass_at_1"][-3] == "+0.250"
