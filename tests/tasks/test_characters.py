"""The character tokenizer is an ordinary Hugging Face directory."""

import pytest

from rlvr_jax import tasks


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("characters")
    tasks.build_character_tokenizer(directory)
    return tasks.load_tokenizer(directory)


def test_one_id_per_character(tokenizer):
    text = "".join(map(chr, range(32, 127))) + "\n  f(3) = 11 . 's\n\n"
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.vocab_size == 100
    assert set(ids) == set(range(4, 100))


def test_turns_are_compact(tokenizer):
    ids = tokenizer.prompt_ids("f(0)=1")
    spelled = tokenizer.decode(ids, skip_special=False)
    assert spelled == "<|user|>f(0)=1<|end|><|assistant|>"
    assert len(ids) == 3 + len("f(0)=1")
    assert tokenizer.stop_ids == (3,)
    assert tokenizer.pad_id == 0


def test_appendix_of_open_and_closed_responses(tokenizer):
    closed = tokenizer.appendix_ids("x=4", closed=True)
    assert tokenizer.decode(closed, skip_special=False) == (
        "<|user|>x=4<|end|><|assistant|>"
    )
    assert tokenizer.appendix_ids("x=4", closed=False) == [3, *closed]


def test_characters_outside_the_alphabet_become_question_marks(tokenizer):
    ids = tokenizer.encode("é→日x\t")
    assert tokenizer.decode(ids) == "???x?"


def test_transformers_loads_it_by_itself(tmp_path):
    transformers = pytest.importorskip("transformers")
    tasks.build_character_tokenizer(tmp_path / "new" / "folder")
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "new" / "folder")
    ours = tasks.load_tokenizer(tmp_path / "new" / "folder")
    messages = [{"role": "user", "content": "f(0)=1"}]
    theirs = loaded.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    assert theirs == ours.prompt_ids("f(0)=1")
