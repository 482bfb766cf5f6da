"""Small versions of tests/benchmarks/sandbox_proof.py, which holds the long ones."""

from tests.benchmarks import sandbox_proof
from tests.envs.hostile import users


def test_nothing_is_left_after_many_programs():
    found = users.run_module(
        "tests.benchmarks.sandbox_proof", "leaks", "--runs=300", user=users.USERS[-1]
    )
    assert found["runs"] == sum(found["statuses"].values()) == 300
    assert found["wrong"] == []
    assert found["before"] == found["after"]


def test_verdicts_do_not_depend_on_concurrency():
    found = sandbox_proof.concurrency(50, rounds=1, levels=(1, 16))
    assert found["differing"] == []
    assert {"passed", "failed", "error", "output_limit"} <= found["statuses"].keys()
