"""Who is paid for taking another turn, and docs/exact_gradients.md against the code."""

import pathlib
import re

import numpy as np
import pytest

from tests.credit import exact_gradients as exact


@pytest.mark.parametrize("name", exact.TURN_RULES)
def test_another_turn_is_neither_paid_nor_charged(name):
    """Answers of equal reward, one of them asked again: who pays for the turn."""
    rule = exact.TURN_RULES[name]
    bonus = {
        kind: exact.turn_bonus(kind, rule)
        for kind in ("ungraded", "constant", "useless", "chance")
    }
    assert bonus["ungraded"] == pytest.approx(0, abs=1e-6)
    # Partial credit: the mean of what follows is ADDED to the own reward by MeRS.
    if "mers" in name:
        assert bonus["constant"] > 0.03
    else:
        assert bonus["constant"] == 0
    # A turn that cannot succeed lowers the pooled mean, and so pays who takes it.
    if name in ("`reapo`", "pooled, no std"):
        assert bonus["useless"] > 0.01
    else:
        assert bonus["useless"] == pytest.approx(0, abs=1e-6)
    # A turn that may succeed has a value, which own-reward rules do not see.
    if "mars" in name or "mers" in name or "multi" in name:
        assert bonus["chance"] > 0.02
    else:
        assert bonus["chance"] == pytest.approx(0, abs=1e-6)


def test_documented_tables_are_current():
    """docs/exact_gradients.md holds what the command prints."""
    root = pathlib.Path(__file__).parents[2]
    documented = (root / "docs" / "exact_gradients.md").read_text()
    number = re.compile(r"-?\d+\.\d{3}")
    for title, table in exact.TABLES.items():
        held = documented.split(f"### {title}\n\n")[1].split("\n\n")[0].strip()
        tables = [table(), held]
        one, other = (number.sub("#", text) for text in tables)
        assert one == other, f"run the command of docs/exact_gradients.md ({title})"
        values = [list(map(float, number.findall(text))) for text in tables]
        np.testing.assert_allclose(values[0], values[1], rtol=0, atol=2e-3)
