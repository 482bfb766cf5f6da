"""Tasks of reasoning_gym, with a stand-in for the package."""

import random
import sys
import types

import pytest

from rlvr_jax.tasks import generate_reasoning


@pytest.fixture
def package(monkeypatch):
    """Sums and products whose items are seeded by seed + index, as the real ones."""

    def create_dataset(name, *, size, seed):
        x = random.Random(seed).randrange(10**6)
        return [{"question": f"{name} of {x}?\n", "answer": str(x)}] * size

    stand_in = types.SimpleNamespace(create_dataset=create_dataset)
    monkeypatch.setitem(sys.modules, "reasoning_gym", stand_in)


def test_generators_take_turns(package):
    tasks = generate_reasoning(["gcd", "lcm"], seed=3, count=5)
    names = [task.metadata["generator"] for task in tasks]
    assert names == ["gcd", "lcm", "gcd", "lcm", "gcd"]
    first = tasks[0]
    assert (first.id, first.kind) == ("reasoning_gym:gcd/3/0", "math")
    assert first.prompt.startswith(f"gcd of {first.answer}?\n\n")
    assert r"\boxed{}" in first.prompt
    assert tasks == generate_reasoning(["gcd", "lcm"], seed=3, count=5)


def test_neighbouring_seeds_share_no_tasks(package):
    answers = [
        {task.answer for task in generate_reasoning(["gcd"], seed=seed, count=20)}
        for seed in (0, 1)
    ]
    assert not answers[0] & answers[1]


@pytest.mark.parametrize("names", [["codeio"], [""], ["gcd", "simple_equations"], []])
def test_generators_without_one_right_integer(package, names):
    message = r"reasoning_gym: wanted generators out of aiw, .*; got (\['|none)"
    with pytest.raises(ValueError, match=message):
        generate_reasoning(names, seed=0, count=1)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ImportError, match=r"pip install 'rlvr_jax\[reasoning\]'"):
        generate_reasoning(["gcd"], seed=0, count=1)
