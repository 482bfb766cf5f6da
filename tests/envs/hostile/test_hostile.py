"""Hostile programs, as root and as a plain user: none passes, none is noticed."""

import pytest

from tests.envs.hostile import suite, traces, users
from tests.envs.hostile.attack import HIDDEN

ATTACKS = suite.all_attacks()


@pytest.fixture(scope="module", params=users.USERS)
def result(request):
    return users.run_module("tests.envs.hostile.suite", user=request.param)


def test_names_are_distinct_and_many():
    names = [attack.name for _, attack in ATTACKS]
    assert len(set(names)) == len(names) >= 60


def test_no_attack_gains_anything(result):
    assert result["attacks"].keys() == {attack.name for _, attack in ATTACKS}
    gained = {
        name: row
        for name, row in result["attacks"].items()
        if row["solved"] or row["passed"] or row["reward"] != 0.0
    }
    assert gained == {}


def test_attacks_end_as_they_should(result):
    unexpected = {
        attack.name: (attack.statuses, result["attacks"][attack.name])
        for _, attack in ATTACKS
        if result["attacks"][attack.name]["status"] not in attack.statuses.split()
    }
    assert unexpected == {}


def test_feedback_on_attacks_is_short_text_without_hidden_tests(result):
    for row in result["attacks"].values():
        assert row["showable"]
        assert HIDDEN not in row["feedback"]
        assert len(row["feedback"]) < 1500


def test_neighbours_keep_their_verdicts(result):
    assert result["neighbours"] == []


def test_the_next_program_finds_no_trace(result):
    rows, replaced = result["spies"]
    *found, able = [row[1] for row in rows]
    assert found == ["passed"] * len(traces.ATTACKS), rows
    assert able == "failed"
    # They met in one container: nothing was swept away with it.
    assert replaced == 0


def test_nothing_is_left(result):
    before, after = result["before"], result["after"]
    assert before == after
    assert before["processes"] == 0


def test_it_was_the_user_that_was_meant(result, request):
    user = request.node.callspec.params["result"]
    assert (result["uid"] == 0) == (user == "root")
    layers = result["described"]["sandbox"]["layers"]
    assert all(layers[name] for name in layers if name != "cgroup")
