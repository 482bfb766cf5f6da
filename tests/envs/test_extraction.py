import pytest

from rlvr_jax.envs.extraction import choose, code_blocks


@pytest.mark.parametrize(
    ("response", "blocks"),
    [
        ("a\n```python\nx = 1\n```\nb", [("x = 1", 2)]),
        ("```py\nx = 1\n```", [("x = 1", 1)]),
        ("```\nx = 1\n```", [("x = 1", 1)]),
        ("~~~\nx = 1\n~~~", [("x = 1", 1)]),
        ("````\n```\nx\n```\n````", [("```\nx\n```", 1)]),
        ("```python\nx = 1\ny = 2", [("x = 1\ny = 2", 1)]),
        ("```\na\n```\n\n```\nb\n```", [("a", 1), ("b", 5)]),
        ("x = 1", [("x = 1", 0)]),
        ("use `x` and ``y``", [("use `x` and ``y``", 0)]),
        ("  ```python\n  x\n  ```", [("  x", 1)]),
        ("", []),
        (" \n", []),
        ("```\n```", []),
    ],
)
def test_code_blocks(response, blocks):
    assert code_blocks(response) == blocks


def test_only_the_last_blocks_are_kept():
    response = "\n".join(f"```\nx = {i}\n```" for i in range(100))
    assert len(code_blocks(response)) == 32
    assert code_blocks(response)[-1][0] == "x = 99"


@pytest.mark.parametrize(
    ("sources", "entry_point", "chosen"),
    [
        (["def f(): pass", "print(f())"], "f", 0),
        (["def f(): pass", "def f(): return 1", "g = 2"], "f", 1),
        (["f = lambda: 1", "a = 1; b = 2; c = 3"], "f", 0),
        (["class f: pass", "a = 1; b = 2; c = 3"], "f", 0),
        (["x = 1", "long_name = 12", "no python at all"], "f", 1),
        (["x = 1", "long_name = 12"], "", 1),
        (["no python", "not it either"], "f", 1),
        (["def f(:", "x = 1"], "f", 1),
        (["x = 1"], "f", 0),
        (["(" * 5000, "x = 1"], "f", 1),
    ],
)
def test_choose(sources, entry_point, chosen):
    assert choose(sources, entry_point) == chosen
