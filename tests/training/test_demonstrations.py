"""Demonstrations: what the trees hold, and that feedback is the verifier's own."""

import pytest

from rlvr_jax import envs
from rlvr_jax.tasks import build_character_tokenizer, load_tokenizer, synthesize
from rlvr_jax.training import demonstrations as module

SIZES = {"text_length": 64, "feedback_length": 48}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    build_character_tokenizer(directory)
    return load_tokenizer(directory)


@pytest.fixture(scope="module")
def some():
    tasks = synthesize(seed=3, start=0, count=200, split="train")
    return [module.demonstrate(task, seed=1, second_share=0.5) for task in tasks]


def test_mistakes_are_wrong_and_feedback_is_the_verifiers(some):
    with envs.make_verifier("programs", workers=2) as verifier:
        pairs = [(d.task, m.text) for d in some[:40] for m in d.mistakes]
        verdicts = verifier.verify(pairs)
        right = verifier.verify([(d.task, d.task.answer) for d in some[:10]])
    assert not any(verdict.solved for verdict in verdicts)
    assert all(verdict.solved for verdict in right)
    told = [m.feedback for d in some[:40] for m in d.mistakes]
    assert told == [verdict.feedback for verdict in verdicts]


def test_mistakes_depend_on_task_and_seed_alone(some):
    task = some[7].task
    again = module.demonstrate(task, seed=1, second_share=0.5)
    assert again == some[7]
    others = [module.demonstrate(task, seed=s, second_share=0.5) for s in range(8)]
    assert len({d.mistakes[0].text for d in others}) > 1


def test_some_mistakes_pass_the_examples_and_some_do_not(some):
    told = [m.feedback for d in some for m in d.mistakes]
    assert "hidden test failed" in told
    assert sum(" gave " in text for text in told) > len(told) / 2
    assert 0.3 < sum(len(d.mistakes) == 2 for d in some) / len(some) < 0.7


def test_tree_is_prompt_mistake_appendix_repair(some, tokenizer):
    demonstration = next(d for d in some if len(d.mistakes) == 2)
    tree = module.fill_tree([demonstration], tokenizer, **SIZES)
    task, (first, second) = demonstration.task, demonstration.mistakes

    def response(slot):
        return tree.response_tokens[0, slot, : tree.response_lengths[0, slot]].tolist()

    def appendix(slot):
        return tree.feedback_tokens[0, slot, : tree.feedback_lengths[0, slot]].tolist()

    end = tokenizer.stop_ids[0]
    assert tree.prompt_lengths[0] == 1
    prompt = [int(tree.prompt_tokens[0, 0]), *response(module.TRUNK)]
    assert prompt == tokenizer.prompt_ids(task.prompt)
    answer = [*tokenizer.encode(task.answer), end]
    for slot in (module.RIGHT, module.REPAIR, module.LAST):
        assert response(slot) == answer
    assert response(module.MISTAKE) == [*tokenizer.encode(first.text), end]
    assert response(module.SECOND) == [*tokenizer.encode(second.text), end]
    told = tokenizer.appendix_ids(first.feedback, closed=True)
    assert appendix(module.MISTAKE) == told
    told = tokenizer.appendix_ids(second.feedback, closed=True)
    assert appendix(module.SECOND) == told
    parents = tree.layout.parents
    assert parents[module.RIGHT] == parents[module.MISTAKE] == module.TRUNK
    assert parents[module.REPAIR] == parents[module.SECOND] == module.MISTAKE
    assert parents[module.LAST] == module.SECOND


def test_a_second_mistake_is_context_alone(some, tokenizer):
    tree = module.fill_tree(some[:30], tokenizer, **SIZES)
    parts = module.shares(tree, mistake_share=0.25, trunk_share=0.5)
    assert (parts[:, module.TRUNK] == 0.5).all()
    assert (parts[:, module.RIGHT] == 0.75).all()
    assert (parts[:, module.MISTAKE] == 0.25).all()
    assert (parts[:, module.REPAIR] == 1).all()
    assert (parts[:, module.SECOND] == 0).all()
    two = [len(d.mistakes) == 2 for d in some[:30]]
    assert parts[:, module.LAST].tolist() == [float(x) for x in two]


def test_what_does_not_fit_is_refused(some, tokenizer):
    with pytest.raises(ValueError, match="feedback_length must hold every"):
        module.fill_tree(some[:5], tokenizer, **{**SIZES, "feedback_length": 4})
