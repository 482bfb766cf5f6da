"""What chat templates of the supported families do, three turns long, as ids.

The templates are written for these tests; each does what its family's does to texts.
"""

import json

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlvr_jax import tasks
from rlvr_jax.tasks.templates import PLAIN_TEMPLATE
from tests.tasks.small_tokenizer import (
    BEGIN,
    START,
    STOP,
    write_model,
)

EOS = {"eos_token": "<|stop|>", "bos_token": "<|text|>"}
# A system turn is added where there is none; turns end with a token and a newline.
CHATML = (
    "{% if messages[0].role != 'system' %}"
    "<|start|>system\nBe brief.<|stop|>\n{% endif %}{% for m in messages %}"
    "<|start|>{{ m.role }}\n{{ m.content }}<|stop|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
# Roles between tokens, contents trimmed, no newline after a turn, one BOS, and the
# generation prompt written always.
HEADERS = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "<|start|>{{ m.role }}<|head|>\n\n{{ m.content | trim }}<|stop|>{% endfor %}"
    "{{ '<|start|>assistant<|head|>\n\n' }}"
)
# Roles are ordinary text, and only responses end with a token.
ROLES = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|assistant|>\n{{ m.content }}{{ eos_token }}"
    "{% if not loop.last %}\n{% endif %}"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
# Earlier thoughts are left out; enable_thinking=False opens with an empty thought.
THOUGHTS = (
    "{% for m in messages %}{% set text = m.content %}"
    "{% if m.role == 'assistant' and not loop.last %}"
    "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "<|start|>{{ m.role }}\n{{ text }}<|stop|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
# A BOS with every question, and a space before the token that ends a response.
BRACKETS = (
    "{% for m in messages %}"
    "{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
FAMILIES = {
    "chatml": CHATML,
    "headers": HEADERS,
    "roles": ROLES,
    "thoughts": THOUGHTS,
    "plain": None,
}
RESPONSES = ["def f(x):\n    return 3", "x * x é"]
FEEDBACKS = ["Wrong: f(3) gave 9, want 11.", "\n\n  Traceback:\n    line 2\n "]
QUESTION = "hello 1234"


def grown(tokenizer, responses, *, closed):
    """Ids of three turns; a response ends with a stop token or is cut."""
    ids = tokenizer.prompt_ids(QUESTION)
    for response, feedback in zip(responses, FEEDBACKS, strict=True):
        ids += tokenizer.encode(response) + [STOP] * closed
        ids += tokenizer.appendix_ids(feedback, closed=closed)
    return ids


def rendered(directory, responses, template=None, **switches):
    """Ids of the same conversation, rendered whole by transformers."""
    messages = [{"role": "user", "content": QUESTION}]
    for response, feedback in zip(responses, FEEDBACKS, strict=True):
        messages.append({"role": "assistant", "content": response})
        messages.append({"role": "user", "content": feedback})
    return PreTrainedTokenizerFast.from_pretrained(directory).apply_chat_template(
        messages,
        chat_template=template,
        add_generation_prompt=True,
        return_dict=False,
        **switches,
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("closed", [True, False])
def test_turns_are_one_render_of_the_whole(tmp_path, family, closed):
    template = FAMILIES[family]
    write_model(tmp_path, template=template, config=EOS, adds_bos=template == HEADERS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    ids = grown(tokenizer, RESPONSES, closed=closed)
    assert ids == rendered(tmp_path, RESPONSES, template or PLAIN_TEMPLATE)
    # None where the template writes none.
    assert ids.count(BEGIN) == ("bos_token" in (template or ""))
    assert tokenizer.stop_ids == (STOP,)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_empty_response_and_several_messages(tmp_path, family):
    template = FAMILIES[family]
    write_model(tmp_path, template=template, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    assert grown(tokenizer, ["", ""], closed=True) == rendered(
        tmp_path, ["", ""], template or PLAIN_TEMPLATE
    )
    # Two feedback messages in a row are one render, not two.
    messages = [{"role": "user", "content": text} for text in FEEDBACKS]
    reference = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    whole = reference.apply_chat_template(
        [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "x"},
            *messages,
        ],
        chat_template=template or PLAIN_TEMPLATE,
        add_generation_prompt=True,
        return_dict=False,
    )
    assert whole == [
        *tokenizer.prompt_ids(QUESTION),
        *tokenizer.encode("x"),
        *tokenizer.appendix_ids(messages, closed=False),
    ]


def test_thoughts_stay_in_the_history(tmp_path):
    write_model(tmp_path, template=THOUGHTS, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    thought = "<think>\nhm\n</think>\n\n"
    thinking = [thought + response for response in RESPONSES]
    ids = grown(tokenizer, thinking, closed=True)
    # The template forgets the thoughts; what it writes otherwise is the same.
    text = tokenizer.decode(ids, skip_special=False)
    assert text.count(thought) == 2
    whole = rendered(tmp_path, thinking)
    assert tokenizer.decode(whole, skip_special=False) == text.replace(thought, "")
    # Each turn begins with all ids of the turn before.
    first = tokenizer.prompt_ids(QUESTION)
    assert ids[: len(first)] == first


def test_an_empty_thought_opens_every_response(tmp_path):
    write_model(tmp_path, template=THOUGHTS, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path, thinking=False)
    empty = "<think>\n\n</think>\n\n"
    ids = grown(tokenizer, RESPONSES, closed=True)
    text = tokenizer.decode(ids, skip_special=False)
    assert text.count(f"assistant\n{empty}") == 3
    whole = rendered(tmp_path, RESPONSES, enable_thinking=False)
    head, _, last = text.rpartition(empty)
    expected = head.replace(empty, "") + empty + last
    assert tokenizer.decode(whole, skip_special=False) == expected


def test_a_stop_token_is_neither_doubled_nor_lost(tmp_path):
    write_model(tmp_path, template=BRACKETS, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    question = "<|text|>[INST] no [/INST]"
    cut = tokenizer.appendix_ids("no", closed=False)
    assert tokenizer.decode(cut, skip_special=False) == f" <|stop|>{question}"
    closed = tokenizer.appendix_ids("no", closed=True)
    assert tokenizer.decode(closed, skip_special=False) == question
    assert tokenizer.stop_ids == (STOP,)


def test_a_token_that_opens_a_turn_ends_none(tmp_path):
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    write_model(tmp_path, template=template, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    assert tokenizer.stop_ids == (STOP,)
    # After a sampled <|stop|> the next turn still opens.
    closed = tokenizer.appendix_ids("no", closed=True)
    assert tokenizer.decode(closed, skip_special=False) == (
        "\n<|start|>user\nno\n<|start|>assistant\n"
    )
    # A model that is said to stop there has opened the turn itself.
    (tmp_path / "generation_config.json").write_text(f'{{"eos_token_id": {START}}}')
    tokenizer = tasks.load_tokenizer(tmp_path)
    closed = tokenizer.appendix_ids("no", closed=True)
    assert tokenizer.decode(closed, skip_special=False) == (
        "user\nno\n<|start|>assistant\n"
    )


def test_a_doubled_bos_is_written_once(tmp_path):
    write_model(tmp_path, template="{{ bos_token }}" + HEADERS, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    ids = grown(tokenizer, RESPONSES, closed=True)
    assert ids == rendered(tmp_path, RESPONSES)[1:]
    assert ids.count(BEGIN) == 1


def test_the_day_is_always_the_same(tmp_path):
    day = (
        "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y, %B %m') }}"
        "{% endif %}{% for m in messages %}{{ strftime_now('|%F') }}{% endfor %}"
    )
    write_model(tmp_path, template=day + CHATML, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    text = tokenizer.decode(tokenizer.prompt_ids("x"))
    assert text.startswith("26 Jul 2024, July 07|2024-07-26")


def test_a_template_in_a_file_of_its_own(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    write_model(source, config=EOS)
    (source / "chat_template.jinja").write_text(CHATML)
    tokenizer = tasks.load_tokenizer(source)
    ids = grown(tokenizer, RESPONSES, closed=True)
    assert ids == rendered(source, RESPONSES, CHATML)
    tokenizer.save(tmp_path / "target")
    assert ids == rendered(tmp_path / "target", RESPONSES)


def test_thinking_needs_a_switch(tmp_path):
    write_model(tmp_path, template=CHATML, config=EOS)
    with pytest.raises(ValueError, match=r"thinking must be None, .* got False"):
        tasks.load_tokenizer(tmp_path, thinking=False)


def test_named_templates_need_a_default(tmp_path):
    named = [{"name": name, "template": CHATML} for name in ("tool_use", "rag")]
    write_model(tmp_path, template=named, config=EOS)
    with pytest.raises(ValueError, match=r"named default, got \['rag', 'tool_use'\]"):
        tasks.load_tokenizer(tmp_path)
    named.append({"name": "default", "template": HEADERS})
    write_model(tmp_path, template=named, config=EOS)
    tokenizer = tasks.load_tokenizer(tmp_path)
    assert "<|head|>" in tokenizer.decode(tokenizer.prompt_ids("x"), False)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("adds_bos", [True, False])
def test_what_is_saved_acts_the_same_in_transformers(tmp_path, family, adds_bos):
    template = FAMILIES[family]
    thinking = False if family == "thoughts" else None
    generation = {"eos_token_id": 300, "temperature": 0.6}
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    write_model(
        source,
        template=template,
        config=EOS,
        adds_bos=adds_bos,
        **{"generation_config.json": generation},
    )
    tokenizer = tasks.load_tokenizer(source, thinking=thinking)
    tokenizer.save(target)
    again = tasks.load_tokenizer(target)
    assert again.prompt_ids(QUESTION) == tokenizer.prompt_ids(QUESTION)
    assert grown(again, RESPONSES, closed=True) == grown(
        tokenizer, RESPONSES, closed=True
    )
    assert (again.stop_ids, again.pad_id) == (tokenizer.stop_ids, tokenizer.pad_id)
    # What others call: the run's ids without any argument.
    theirs = AutoTokenizer.from_pretrained(target).apply_chat_template(
        [{"role": "user", "content": QUESTION}],
        add_generation_prompt=True,
        return_dict=False,
    )
    assert theirs == tokenizer.prompt_ids(QUESTION)
    assert json.loads((target / "generation_config.json").read_text()) == {
        "eos_token_id": [300, STOP],
        "temperature": 0.6,
        "pad_token_id": 300,
    }
