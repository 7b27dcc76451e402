"""A model's chat template: a conversation becomes the prompt that asks for the assistant's next turn.

Templates are Jinja, as Hugging Face's tokenizers and GGUF files bring them, with the same filters and functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.model.chat_text import ChatText, SpecialWords, cleaned
from engine.requests.fields import shown
from engine.words import flat

ROLES = ("system", "user", "assistant", "tool", "developer", "function")
"""Who can say something. No others: templates make special tokens of them."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For models that know ChatML's tokens and bring no template."""

_OWN = frozenset({"messages", "add_generation_prompt", "bos_token", "eos_token"})


class ChatTemplate:
    """Jinja of a file that comes from elsewhere, compiled when it is first used; one bad template spoils no completion."""

    def __init__(self, source: str, bos: str = "", eos: str = "", specials: Iterable[str] = ()) -> None:
        """``bos``, ``eos``: spellings of those tokens, which templates ask for as ``bos_token`` and ``eos_token``.
        ``specials``: the spellings of all special tokens that the template may name."""
        self.source = source
        self._bos, self._eos = bos, eos
        self._words = SpecialWords([*specials, *filter(None, (bos, eos))])
        self._template: Any = None
        self._refusal: str | None = None

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **kwargs: Any
    ) -> ChatText:
        """The prompt. ``messages``: ``role``, one of `ROLES`, ``content``, a text or parts of type text, and what else the
        template reads. ``kwargs``: further variables of the template, such as ``tools``.

        Runs in the caller's thread, for some seconds at most whatever the template is. Raises ValueError in one sentence:
        beginning with ``messages[2].content`` or another place for what is wrong there, else with "the chat template".
        """
        template = self._compiled()
        for name in _OWN & kwargs.keys():
            raise ValueError(f"{name}: not for the asker to set")
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence) or not messages:
            raise ValueError(f"messages: {shown(messages)} is not a list of at least one message")
        turns = _Turns(self._turn(number, message) for number, message in enumerate(messages))
        values = {name: cleaned(value, self._words.clean, name) for name, value in kwargs.items()}
        try:
            return self._words.split(self._render(template, turns, add_generation_prompt, values))
        except ValueError as error:
            where = "messages" if turns.looked_at is None else f"messages[{turns.looked_at}]"
            raise ValueError(f"{where}: the chat template refuses it: {flat(str(error))}") from None

    def _render(self, template: Any, turns: "_Turns", prompt: bool, values: dict[str, Any]) -> str:
        tokens = {"bos_token": self._words.mark(self._bos), "eos_token": self._words.mark(self._eos)}
        rendered: str = template.render({**values, **tokens, "messages": turns, "add_generation_prompt": prompt})
        return rendered

    def _compiled(self) -> Any:
        """Two threads may both compile it; they get the same. What is no good is not tried again."""
        if self._refusal is not None:
            raise ValueError(self._refusal)
        if self._template is None:
            # Jinja takes a while to import, and most engines never chat.
            from engine.model.template_sandbox import SandboxedTemplate

            try:
                template = SandboxedTemplate(self.source, self._words.mark)
                self._learn(template)
            except ValueError as error:
                self._refusal = f"the chat template of this model cannot be used: {flat(str(error))}"
                raise ValueError(self._refusal) from None
            self._template = template
        return self._template

    def _learn(self, template: Any) -> None:
        """Which special tokens the template puts together from pieces is seen in what it makes of harmless words.

        Raises ValueError where even these are too much for it.
        """
        from engine.model.template_sandbox import EndlessTemplate

        for roles in (("system", "user", "assistant", "user"), ("user", "assistant", "user"), ("user",)):
            turns = _Turns(_Turn(0, {"role": role, "content": "a"}) for role in roles)
            try:
                self._words.learn(self._words.split(self._render(template, turns, True, {})))
            except EndlessTemplate:
                raise
            except ValueError:  # it does not take every order of roles
                continue
            return

    def _turn(self, number: int, message: Any) -> "_Turn":
        place = f"messages[{number}]"
        if not isinstance(message, Mapping):
            raise ValueError(f"{place}: {shown(message)} is not a message with a role and a content")
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise ValueError(f"{place}.role: {shown(role)} is not one of {', '.join(ROLES)}")
        content = _text(message.get("content"), f"{place}.content", needed="tool_calls" not in message)
        others = {name: value for name, value in message.items() if name not in ("role", "content")}
        return _Turn(
            number,
            {
                "role": role,
                "content": content if content is None else self._words.clean(content),
                **cleaned(others, self._words.clean, place),
            },
        )


def _text(content: Any, place: str, *, needed: bool) -> str | None:
    """The text of a message, which clients may give in parts."""
    if content is None and not needed:
        return None
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise ValueError(f"{place}: {shown(content)} is neither a text nor a list of parts")
    texts = []
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            raise ValueError(f"{place}[{number}].type: {shown(kind)} is not text, and this engine reads nothing else")
        if not isinstance(part.get("text"), str):
            raise ValueError(f"{place}[{number}].text: {shown(part.get('text'))} is not a text")
        texts.append(part["text"])
    return "\n".join(texts)


class _Turn(dict[str, Any]):
    """One message. Tells its conversation when it is read."""

    def __init__(self, number: int, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._number = number
        self._turns: _Turns | None = None

    def __getitem__(self, key: str) -> Any:
        if self._turns is not None:
            self._turns.looked_at = self._number
        return super().__getitem__(key)


class _Turns(list[_Turn]):
    """The conversation; ``looked_at``: the message that the template read last, which an error is most likely about."""

    def __init__(self, turns: Iterable[_Turn]) -> None:
        super().__init__(turns)
        self.looked_at: int | None = None
        for turn in self:
            turn._turns = self
