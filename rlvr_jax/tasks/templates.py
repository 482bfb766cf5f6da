"""Chat templates: a conversation as text, turn by turn.

A history of ids only grows, while a template renders whole conversations and may write
an earlier turn differently once a later one follows. Ours never changes what the policy
read or sampled: every new turn is the end of one render (`ChatTemplate.appendix`).
`docs/chat_templates.md` lists where the two differ.
"""

import re
from collections.abc import Sequence

# For models without a chat template: the role on a line of its own, then the text.
PLAIN_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize }}:\n{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '' }}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)

# Hides special tokens in people's texts from the tokenizer; Unicode says that no text
# holds this code point.
HIDE = "\uffff"

# Templates that write the day get this one, so that a prompt has the same ids on every
# day: 26 July 2024, which Llama 3's own template falls back to.
DAY = {
    "%d": "26",
    "%e": "26",
    "%b": "Jul",
    "%B": "July",
    "%m": "07",
    "%Y": "2024",
    "%y": "24",
    "%A": "Friday",
    "%a": "Fri",
    "%F": "2024-07-26",
}

# Stands for a response while a template is rendered; templates leave it alone.
_SENTINEL = "RESPONSE-STANDS-HERE"


class ChatTemplate:
    """The chat template of a tokenizer, in one of its modes.

    Attributes:
        text: the Jinja template; rendered without further variables it acts as this
            object does.
        special_pattern: matches the tokenizer's special tokens, and is one group.
    """

    def __init__(self, tokenizer, *, thinking: bool | None, source: str) -> None:
        """Takes the template of a `transformers.PreTrainedTokenizerFast`.

        Args:
            tokenizer: one without a template gets `PLAIN_TEMPLATE`, after a BOS token
                if it adds one to texts.
            thinking: value of the template's switch `enable_thinking`; None leaves it
                to the template.
            source: where it came from, for error messages.

        Raises:
            ValueError: there are several templates and none is the default, or no
                switch for `thinking`.
        """
        self._tokenizer, self._source = tokenizer, source
        self.text = _fixed_day(_template_text(tokenizer, source))
        if thinking is not None:
            if "enable_thinking" not in self.text:
                raise ValueError(
                    f"{source}: thinking must be None, because the chat template has no"
                    f" switch enable_thinking; got {thinking}"
                )
            self.text = (
                "{%- if enable_thinking is not defined %}"
                f"{{%- set enable_thinking = {str(thinking).lower()} %}}"
                "{%- endif %}" + self.text
            )
        specials = (
            t.content for t in tokenizer.added_tokens_decoder.values() if t.special
        )
        # The longest first; the second alternative matches nowhere.
        tokens = sorted(map(re.escape, specials), key=len, reverse=True)
        self.special_pattern = re.compile("(" + "|".join([*tokens, "(?!)"]) + ")")

    def prompt(self, messages: Sequence[dict]) -> str:
        """The text up to the first response; special tokens of contents are hidden."""
        return self._render(messages)

    def appendix(self, messages: Sequence[dict]) -> str:
        """The text from the end of a response, through `messages`, to the next one."""
        return self._after_response(messages, opens_next=True)

    def closing(self) -> str:
        """The text after a response that ends the conversation."""
        return self._after_response([], opens_next=False)

    def _after_response(self, messages: Sequence[dict], *, opens_next: bool) -> str:
        conversation = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _SENTINEL},
            *messages,
        ]
        text = self._render(conversation, opens_next=opens_next)
        _, found, tail = text.partition(_SENTINEL)
        if not found:
            raise ValueError(
                f"{self._source}: the chat template leaves out earlier responses, so"
                " no second attempt can follow one; give the model another template"
            )
        return tail

    def _render(self, messages: Sequence[dict], *, opens_next: bool = True) -> str:
        hidden = [
            {**message, "content": self._hidden(message["content"])}
            for message in messages
        ]
        try:
            return self._tokenizer.apply_chat_template(
                hidden,
                chat_template=self.text,
                tokenize=False,
                add_generation_prompt=opens_next,
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
        return self.special_pattern.sub(_hide, content)


def checked_messages(messages: str | Sequence[dict], name: str) -> list[dict]:
    """Messages that ask for a response; a text is one message of the user.

    Args:
        messages: a text, or messages `{"role": ..., "content": ...}`.
        name: of the argument, for error messages.

    Raises:
        ValueError: a message is malformed, there is none, or the last one is the
            assistant's.
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    for message in messages:
        if not (
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
        ):
            raise ValueError(
                f"{name}: every message must be a dict with the strings role and"
                f" content, got {message!r}"
            )
    if not messages or messages[-1]["role"] == "assistant":
        raise ValueError(
            f"{name} must end with a message that asks for a response, got"
            f" {[message['role'] for message in messages]}"
        )
    return list(messages)


def _template_text(tokenizer, source: str) -> str:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        if "default" not in template:
            raise ValueError(
                f"{source}: wanted a chat template named default, got"
                f" {sorted(template)}: write the one to use to chat_template.jinja"
            )
        template = template["default"]
    if template:
        return template
    adds_bos = tokenizer.bos_token_id in tokenizer.encode("")
    return "{{ bos_token }}" + PLAIN_TEMPLATE if adds_bos else PLAIN_TEMPLATE


def _fixed_day(template: str) -> str:
    if "strftime_now" not in template:
        return template
    filters = "".join(f"|replace('{code}', '{day}')" for code, day in DAY.items())
    # transformers lets a caller pass no function; a macro of the name does as well.
    macro = (
        f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}"
    )
    return macro + template


def _hide(match: re.Match) -> str:
    token = match.group()
    return token[0] + HIDE + token[1:]
