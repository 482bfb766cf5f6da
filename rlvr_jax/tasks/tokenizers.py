"""Texts to ids and back, and the glue of chat turns, for any Hugging Face tokenizer.

Ids are the only record of a conversation: a history grows by appending
`Tokenizer.appendix_ids`, and what was sampled is never decoded and encoded again.
"""

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

# For models without a chat template: the role on a line of its own, then the text.
PLAIN_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize }}:\n{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '' }}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)

# Stands for a response while a template is rendered; templates leave it alone.
_SENTINEL = "RESPONSE-STANDS-HERE"

# Hides special tokens in people's texts from the tokenizer; Unicode says that no text
# holds this code point.
_HIDE = "\uffff"


class Tokenizer:
    """A Hugging Face tokenizer with its chat template; made by `load_tokenizer`.

    Attributes:
        stop_ids: ids that end a response, in order of their first mention.
        pad_id: id that fills padding; masks, not this id, say what is padding.
        vocab_size: number of ids, added tokens included: every id is below it. A
            model's embedding may have more rows.
    """

    def __init__(self, tokenizer, *, stop_ids: Sequence[int], source: str):
        """Wraps a `transformers.PreTrainedTokenizerFast`.

        Args:
            tokenizer: the tokenizer; one without a chat template gets `PLAIN_TEMPLATE`.
            stop_ids: ids that end a response; the template's end-of-turn token is
                added to them.
            source: where it came from, for error messages.
        """
        self._tokenizer = tokenizer
        self._source = source
        template = tokenizer.chat_template
        if isinstance(template, dict):
            template = template.get("default")
        self._template = template or PLAIN_TEMPLATE
        self._specials = {
            token.content: i
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        # The longest first; the second alternative matches nowhere.
        tokens = sorted(map(re.escape, self._specials), key=len, reverse=True)
        self._special_pattern = re.compile("(" + "|".join([*tokens, "(?!)"]) + ")")
        self.vocab_size = max(tokenizer.get_vocab().values()) + 1
        end = self._tail_ids("x")[0]
        ends = [end] if end in self._specials.values() else []
        self.stop_ids = tuple(dict.fromkeys([*stop_ids, *ends]))
        if not self.stop_ids:
            raise ValueError(
                f"{source}: no stop token: eos_token_id is in neither"
                " generation_config.json nor config.json, tokenizer_config.json has no"
                " eos_token and the chat template ends a turn with no special token;"
                " add one of them"
            )
        pad_id = tokenizer.pad_token_id
        self.pad_id = self.stop_ids[0] if pad_id is None else pad_id

    def encode(self, text: str) -> list[int]:
        """Ids of a text; no token is added, special tokens in it are parsed."""
        return self._encode(text, parse_special=True)

    def _encode(self, text: str, *, parse_special: bool) -> list[int]:
        # verbose=False: no warning about a length that the run's own limits decide.
        return self._tokenizer.encode(
            text,
            add_special_tokens=False,
            split_special_tokens=not parse_special,
            verbose=False,
        )

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of ids, exactly as the tokens spell it; special tokens are left out."""
        return self._tokenizer.decode(
            list(map(int, ids)),
            skip_special_tokens=skip_special,
            clean_up_tokenization_spaces=False,
        )

    def prompt_ids(self, prompt: str | Sequence[dict]) -> list[int]:
        """Ids of the first context: the templated prompt, ready for a response.

        Args:
            prompt: the user's message, or messages `{"role": ..., "content": ...}`
                the last of which is not the assistant's. A special token spelled out
                in a content stays ordinary text.

        Returns:
            Ids that end with the generation prompt. A BOS token is there once if the
            template writes one, or if there is no template and the tokenizer adds one.

        Raises:
            ValueError: the messages are malformed or refused by the template.
        """
        ids = self._encode_render(self._render(_messages(prompt)))
        bos = self._tokenizer.bos_token_id
        if self._template == PLAIN_TEMPLATE and bos in self._tokenizer.encode(""):
            return [bos, *ids]
        return ids

    def appendix_ids(self, feedback: str, *, closed: bool) -> list[int]:
        """Ids from the end of a response to the start of the next one.

        They close the assistant's turn, give the feedback as a user's turn and open
        the next response: the part after the response of one render of the
        conversation [user, assistant, user]. All of it is context, none is trained.

        Args:
            feedback: text of the user's message; a special token spelled out in it
                stays ordinary text.
            closed: whether the response ends with a stop token that the policy
                sampled; the one the template writes is then left out.

        Returns:
            Ids to append to the parent's history.
        """
        ids = self._tail_ids(feedback)
        return ids[1:] if closed and ids[0] in self.stop_ids else ids

    def _tail_ids(self, feedback: str) -> list[int]:
        conversation = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _SENTINEL},
            {"role": "user", "content": feedback},
        ]
        _, found, tail = self._render(conversation).partition(_SENTINEL)
        if not found:
            raise ValueError(
                f"{self._source}: the chat template leaves out earlier responses, so"
                " no second attempt can follow one; give the model another template"
            )
        return self._encode_render(tail)

    def _render(self, messages: Sequence[dict]) -> str:
        """Returns the templated text, with special tokens of the contents hidden."""
        hidden = [
            {**message, "content": self._hidden(message["content"])}
            for message in messages
        ]
        try:
            return self._tokenizer.apply_chat_template(
                hidden,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=True,
            )
        except ImportError:
            raise
        except Exception as error:
            roles = [message["role"] for message in messages]
            raise ValueError(
                f"{self._source}: the chat template refuses messages with roles"
                f" {roles}: {error}"
            ) from error

    def _hidden(self, content: str) -> str:
        # A lone surrogate (programs print them) is no text for a tokenizer: "?".
        content = content.encode("utf-8", "replace").decode("utf-8")
        return self._special_pattern.sub(_hide, content)

    def _encode_render(self, text: str) -> list[int]:
        if _HIDE not in text:
            return self.encode(text)
        # Rare: cut at the template's own special tokens and read the rest as text.
        ids = []
        for piece in self._special_pattern.split(text):
            if piece in self._specials:
                ids.append(self._specials[piece])
            else:
                ids += self._encode(piece.replace(_HIDE, ""), parse_special=False)
        return ids


def load_tokenizer(directory: str | pathlib.Path) -> Tokenizer:
    """Loads the tokenizer of a Hugging Face directory; nothing is downloaded.

    tokenizer.json is taken as it is: the classes that transformers picks by model
    type rebuild some of its parts and then split texts differently.

    Args:
        directory: holds tokenizer.json and, as far as the model has them,
            tokenizer_config.json, chat_template.jinja, generation_config.json,
            config.json.

    Raises:
        FileNotFoundError: there is no such directory or no tokenizer.json in it.
        ValueError: a file is malformed, or nothing names a stop token.
    """
    directory = pathlib.Path(directory)
    if not (directory / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"{directory}: tokenizer.json is missing; wanted the directory of a"
            " Hugging Face model with a fast tokenizer"
        )
    stop_ids = [
        *_eos_ids(directory / "generation_config.json"),
        *_eos_ids(directory / "config.json"),
    ]
    with _no_advice():
        # Imported here because it takes seconds and most users of tasks need it not.
        from transformers import PreTrainedTokenizerFast

        try:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(
                str(directory), local_files_only=True
            )
        except Exception as error:
            raise ValueError(
                f"{directory}: the tokenizer cannot be read: {error}"
            ) from error
    if tokenizer.eos_token_id is not None:
        stop_ids.append(tokenizer.eos_token_id)
    return Tokenizer(tokenizer, stop_ids=stop_ids, source=str(directory))


def _hide(match: re.Match) -> str:
    token = match.group()
    return token[0] + _HIDE + token[1:]


def _messages(prompt: str | Sequence[dict]) -> list[dict]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    for message in prompt:
        if not (
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
        ):
            raise ValueError(
                "prompt: every message must be a dict with the strings role and"
                f" content, got {message!r}"
            )
    if not prompt or prompt[-1]["role"] == "assistant":
        raise ValueError(
            "prompt must end with a message that asks for a response, got"
            f" {[message['role'] for message in prompt]}"
        )
    return list(prompt)


def _eos_ids(path: pathlib.Path) -> list[int]:
    """Returns the eos ids that a configuration file names, none if it is missing."""
    if not path.is_file():
        return []
    try:
        eos = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path}: wanted a JSON object: {error}") from error
    ids = [] if eos is None else eos if isinstance(eos, list) else [eos]
    if not all(isinstance(i, int) for i in ids):
        raise ValueError(
            f"{path}: eos_token_id: wanted an id or a list of ids, got {eos!r}"
        )
    return ids


@contextlib.contextmanager
def _no_advice() -> Iterator[None]:
    """Silences transformers' advice (such as "PyTorch was not found"), not errors."""
    name = "TRANSFORMERS_NO_ADVISORY_WARNINGS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
