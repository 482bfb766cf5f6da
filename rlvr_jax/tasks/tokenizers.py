"""Texts to ids and back, and the glue of chat turns, for any Hugging Face tokenizer.

Ids are the only record of a conversation: a history grows by appending
`Tokenizer.appendix_ids`, and what was sampled is never decoded and encoded again.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence

from rlvr_jax.tasks.templates import HIDE, ChatTemplate, checked_messages
from rlvr_jax.tasks.tokenizer_files import GENERATION, eos_ids, write_tokenizer


class Tokenizer:
    """A Hugging Face tokenizer with its chat template; made by `load_tokenizer`.

    Attributes:
        stop_ids: ids that end a response, in order of their first mention.
        pad_id: id that fills padding; masks, not this id, say what is padding.
        vocab_size: number of ids, added tokens included: every id is below it. A
            model's embedding may have more rows.
    """

    def __init__(
        self,
        tokenizer,
        *,
        stop_ids: Sequence[int],
        source: str,
        thinking: bool | None = None,
    ):
        """Wraps a `transformers.PreTrainedTokenizerFast`.

        Args:
            tokenizer: one without a chat template gets `templates.PLAIN_TEMPLATE`.
            stop_ids: ids that end a response; the template's end-of-turn token is
                added to them.
            source: where it came from, for error messages.
            thinking: see `load_tokenizer`.
        """
        self._tokenizer = tokenizer
        self._source = source
        self._template = ChatTemplate(tokenizer, thinking=thinking, source=source)
        self._specials = {
            token.content: i
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self.vocab_size = max(tokenizer.get_vocab().values()) + 1
        close = self._closing_ids(stop_ids)
        self._num_closing = len(close)
        self.stop_ids = tuple(dict.fromkeys([*stop_ids, *close[-1:]]))
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
        ids = self._encode_render(
            self._template.prompt(checked_messages(prompt, "prompt"))
        )
        bos = self._tokenizer.bos_token_id
        while bos is not None and ids[:2] == [bos, bos]:
            del ids[0]
        return ids

    def appendix_ids(
        self, feedback: str | Sequence[dict], *, closed: bool
    ) -> list[int]:
        """Ids from the end of a response to the start of the next one.

        They close the assistant's turn, give the feedback as a user's turn and open
        the next response: the part after the response of one render of the
        conversation [user, assistant, user]. All of it is context, none is trained.

        Args:
            feedback: text of the user's message, or messages as in `prompt_ids`; a
                special token spelled out in it stays ordinary text.
            closed: whether the response ends with a stop token that the policy
                sampled; the one the template writes is then left out.

        Returns:
            Ids to append to the parent's history.

        Raises:
            ValueError: the messages are malformed or refused by the template.
        """
        messages = checked_messages(feedback, "feedback")
        ids = self._encode_render(self._template.appendix(messages))
        return ids[self._num_closing :] if closed else ids

    def save(self, directory: str | pathlib.Path) -> None:
        """Writes a tokenizer that other tools load and that acts as this one does.

        tokenizer_config.json has the chat template (the plain one, if the model has
        none), and generation_config.json the stop ids. The source must still be there.

        Args:
            directory: made if missing; files of the same names are replaced.
        """
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        write_tokenizer(
            pathlib.Path(self._source),
            directory,
            template=self._template.text,
            stop_ids=self.stop_ids,
            pad_id=self.pad_id,
        )

    def _closing_ids(self, stop_ids: Sequence[int]) -> list[int]:
        """What the template writes to end a response: at most spaces, then a token.

        Returns:
            Ids that every appendix begins with; none if no special token ends a turn.
        """
        ids = self._encode_render(self._template.appendix(checked_messages("x", "")))
        specials = self._specials.values()
        place = next((k for k, i in enumerate(ids) if i in specials), len(ids))
        close = ids[: place + 1]
        if place == len(ids) or self.decode(close[:-1], skip_special=False).strip():
            return []
        # A token that opens the next turn is not there when the conversation ends.
        final = self._encode_render(self._template.closing())
        return close if final[: len(close)] == close or close[-1] in stop_ids else []

    def _encode_render(self, text: str) -> list[int]:
        if HIDE not in text:
            return self.encode(text)
        # Rare: cut at the template's own special tokens and read the rest as text.
        ids = []
        for piece in self._template.special_pattern.split(text):
            if piece in self._specials:
                ids.append(self._specials[piece])
            else:
                ids += self._encode(piece.replace(HIDE, ""), parse_special=False)
        return ids


def load_tokenizer(
    directory: str | pathlib.Path, *, thinking: bool | None = None
) -> Tokenizer:
    """Loads the tokenizer of a Hugging Face directory; nothing is downloaded.

    tokenizer.json is taken as it is: the classes that transformers picks by model
    type rebuild some of its parts and then split texts differently.

    Args:
        directory: holds tokenizer.json and, as far as the model has them,
            tokenizer_config.json, chat_template.jinja, generation_config.json,
            config.json.
        thinking: whether responses begin with thoughts, for templates that have the
            switch `enable_thinking` (Qwen3: False opens each response with an empty
            thought); None leaves it to the template.

    Raises:
        FileNotFoundError: there is no such directory or no tokenizer.json in it.
        ValueError: a file is malformed, nothing names a stop token, or the template
            has no switch for `thinking`.
    """
    directory = pathlib.Path(directory)
    if not (directory / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"{directory}: tokenizer.json is missing; wanted the directory of a"
            " Hugging Face model with a fast tokenizer"
        )
    stop_ids = [
        *eos_ids(directory / GENERATION),
        *eos_ids(directory / "config.json"),
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
    return Tokenizer(
        tokenizer, stop_ids=stop_ids, source=str(directory), thinking=thinking
    )


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
