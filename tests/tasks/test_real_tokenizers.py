"""Real tokenizers and their own templates, three turns long.

bash launch/fetch_qwen3_tokenizer.sh QWEN3
bash launch/fetch_smollm2.sh SMOLLM2
QWEN3=DIR SMOLLM2=DIR LLAMA3=DIR python -m pytest -m parity \
    tests/tasks/test_real_tokenizers.py

LLAMA3 is a directory with the tokenizer of Llama 3 Instruct; -k leaves models out.
"""

import os

import pytest
from transformers import AutoTokenizer

from rlvr_jax import tasks
from tests.tasks.test_templates import FEEDBACKS, QUESTION, RESPONSES

pytestmark = pytest.mark.parity
THOUGHT = "<think>\nhm, 3 * 3 = 9\n</think>\n\n"
EMPTY = "<think>\n\n</think>\n\n"


def grown(tokenizer, responses, *, closed):
    """Ids of three turns; a response ends with the template's token or is cut."""
    ids = tokenizer.prompt_ids(QUESTION)
    for response, feedback in zip(responses, FEEDBACKS, strict=True):
        stop = tokenizer.appendix_ids(feedback, closed=False)[:1]
        ids += tokenizer.encode(response) + stop * closed
        ids += tokenizer.appendix_ids(feedback, closed=closed)
    return ids


def rendered(directory, responses, **switches):
    """Ids of the same conversation, rendered whole by the model's own tokenizer."""
    messages = [{"role": "user", "content": QUESTION}]
    for response, feedback in zip(responses, FEEDBACKS, strict=True):
        messages.append({"role": "assistant", "content": response})
        messages.append({"role": "user", "content": feedback})
    return AutoTokenizer.from_pretrained(directory).apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False, **switches
    )


@pytest.mark.parametrize(
    ("model", "stops"),
    [
        ("QWEN3", {"<|im_end|>"}),
        ("SMOLLM2", {"<|im_end|>"}),
        ("LLAMA3", {"<|eot_id|>"}),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_turns_are_one_render_of_the_whole(model, stops, closed):
    directory = os.environ[model]
    tokenizer = tasks.load_tokenizer(directory)
    ids = grown(tokenizer, RESPONSES, closed=closed)
    assert ids == rendered(directory, RESPONSES)
    found = {tokenizer.decode([i], skip_special=False) for i in tokenizer.stop_ids}
    assert stops <= found


@pytest.mark.parametrize("thinking", [None, True])
def test_qwen3_forgets_thoughts_and_we_keep_them(thinking):
    directory = os.environ["QWEN3"]
    tokenizer = tasks.load_tokenizer(directory, thinking=thinking)
    responses = [THOUGHT + response for response in RESPONSES]
    ids = grown(tokenizer, responses, closed=True)
    text = tokenizer.decode(ids, skip_special=False)
    assert text.count(THOUGHT) == 2
    whole = rendered(directory, responses)
    assert whole == tokenizer.encode(text.replace(THOUGHT, ""))


def test_qwen3_without_thinking_keeps_its_empty_thoughts():
    directory = os.environ["QWEN3"]
    tokenizer = tasks.load_tokenizer(directory, thinking=False)
    ids = grown(tokenizer, RESPONSES, closed=True)
    empty = tokenizer.encode(EMPTY)
    prompt = tokenizer.prompt_ids(QUESTION)
    assert prompt[-len(empty) :] == empty
    whole = rendered(directory, RESPONSES, enable_thinking=False)
    assert len(ids) - len(whole) == 2 * len(empty)
    head, _, last = tokenizer.decode(ids, skip_special=False).rpartition(EMPTY)
    assert whole == tokenizer.encode(head.replace(EMPTY, "") + EMPTY + last)


@pytest.mark.parametrize("thinking", [None, False])
def test_qwen3_saved_is_loaded_by_transformers(tmp_path, thinking):
    tokenizer = tasks.load_tokenizer(os.environ["QWEN3"], thinking=thinking)
    tokenizer.save(tmp_path)
    saved = AutoTokenizer.from_pretrained(tmp_path)
    prompt = [{"role": "user", "content": QUESTION}]
    ids = saved.apply_chat_template(
        prompt, add_generation_prompt=True, return_dict=False
    )
    assert ids == tokenizer.prompt_ids(QUESTION)
    text = "it 's 1234 , \n\n  naïve <think> é"
    assert saved.encode(text) == tokenizer.encode(text)
    assert saved.decode(saved.encode(text)) == text
