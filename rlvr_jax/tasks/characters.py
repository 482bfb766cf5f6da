"""A character tokenizer as an ordinary Hugging Face directory, for tiny models."""

import json
import pathlib

PAD, USER, ASSISTANT, END = "<|pad|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIALS = (PAD, USER, ASSISTANT, END)

# Newline and printable ASCII. A character outside it is read as UNKNOWN.
ALPHABET = ("\n", *map(chr, range(32, 127)))
UNKNOWN = "?"

# Every role but the assistant's opens with the user's token: there is no system role.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' }}"
    "{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_character_tokenizer(directory: str | pathlib.Path) -> None:
    """Writes a tokenizer of one id per character into a directory.

    Ids 0 to 3 are <|pad|>, <|user|>, <|assistant|>, <|end|>; then come newline and
    printable ASCII, 100 ids in all. A turn is <|user|>text<|end|> or
    <|assistant|>text<|end|>, with nothing between turns; <|end|> is the stop token.

    Args:
        directory: where tokenizer.json, tokenizer_config.json and
            generation_config.json go; made if missing, other files stay.
    """
    # Imported here: `tokenizers` takes a while to load and is needed here only.
    from tokenizers import AddedToken, Tokenizer, decoders, models

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: i for i, token in enumerate((*SPECIALS, *ALPHABET))}
    # Byte-pair encoding without merges splits a text into its characters.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIALS]
    )
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )
    _write_json(
        directory / "generation_config.json",
        {"eos_token_id": vocabulary[END], "pad_token_id": vocabulary[PAD]},
    )


def _write_json(path: pathlib.Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
