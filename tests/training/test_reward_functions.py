"""A run whose responses are graded by the user's own functions."""

import json

from rlvr_jax.training.workbench import open_workbench

REWARDS = """
def right(completions, answer, **columns):
    return [float(text == gold) for text, gold in zip(completions, answer)]

def length(completions):
    return [len(text) for text in completions]
"""


def test_the_configuration_chooses_functions(make_config, tmp_path):
    (tmp_path / "rewards.py").write_text(REWARDS)
    rows = [
        {"id": kind, "kind": kind, "prompt": "1", "answer": "2"}
        for kind in ("math", "code")
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = tuple(f"{tmp_path}/rewards.py:{name}" for name in ("right", "length"))
    config = make_config(
        tasks__source=str(path),
        tasks__verifier="function",
        tasks__verifier_functions=names,
        tasks__verifier_weights=(1.0, 0.25),
        tasks__solved_threshold=0.75,
    )
    bench, _ = open_workbench(config)
    with bench:
        pairs = [(task, text) for task in bench.held_out for text in ("2", "333")]
        verdicts = bench.verifier.verify(pairs)
        assert bench.verifier.workers == config.tasks.verifier_workers
    assert [v.reward for v in verdicts] == [1.25, 0.75, 1.25, 0.75]
    assert all(v.solved for v in verdicts)
