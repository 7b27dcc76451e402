"""``POST /v1/chat/completions``: the assistant's next turn."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from engine.http.errors import invalid
from engine.http.form import ChoiceForm
from engine.http.gate import Text
from engine.http.logprobs import chat_logprobs
from engine.http.schema import Common, ListOf
from engine.requests.stream import Output

MAX_FIELDS = 64
"""Of one message. Those that the template does not know are read all the same: a third of a million took it seven seconds."""


class ChatRequest(Common):
    """``messages``: the conversation; the model's chat template reads them, and says what is wrong with one.
    ``chat_template_kwargs``: further variables for it."""

    LABEL = "chat"
    PROMPT_FIELD = "messages"
    TEMPLATED = True

    messages: ListOf[dict[str, Any]]
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = 0

    @property
    def told_logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs: they are told only with logprobs", "top_logprobs")
        return self.top_logprobs if self.logprobs else None

    @property
    def output_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def output_field(self) -> str:
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def prompt_count(self) -> int:
        return 1

    def prompts(self, text: Text) -> list[list[int]]:
        """Token ids of its prompt, the one of a list. Raises ValueError where the model's template refuses the messages."""
        prompt = self.add_generation_prompt
        return [chat_prompt(text, self.messages, self.chat_template_kwargs, add_generation_prompt=prompt)]

    def form(self, text: Text, name: str, model: str, created: int, prompts: list[list[int]]) -> "ChatForm":
        """How its answer is written."""
        return ChatForm(self, text, name, model, created, prompts)


def chat_prompt(
    text: Text, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], *, add_generation_prompt: bool
) -> list[int]:
    """Token ids of a conversation by the model's template. Raises ValueError where that refuses it."""
    template = text.chat_template
    if template is None:
        raise invalid("messages: this model has no chat template; ask /v1/completions", "messages", "no_chat_template")
    for name in ("messages", "add_generation_prompt"):
        if name in variables:
            raise invalid(f"chat_template_kwargs.{name}: that is a field of its own", f"chat_template_kwargs.{name}")
    for number, turn in enumerate(messages):
        if len(turn) > MAX_FIELDS:
            raise invalid(f"messages[{number}]: {len(turn)} fields; {MAX_FIELDS} at most", f"messages[{number}]")
    turns = [{name: value for name, value in turn.items() if value is not None} for turn in messages]
    return text.encode_chat(template.render(turns, add_generation_prompt=add_generation_prompt, **variables))


class ChatForm(ChoiceForm):
    """Answers to ``asked``."""

    def __init__(
        self, asked: ChatRequest, text: Text, name: str, model: str, created: int, prompts: list[list[int]]
    ) -> None:
        kind = "chat.completion.chunk" if asked.stream else "chat.completion"
        super().__init__(kind, asked, name, model, created, prompts)
        self._asked, self._text = asked, text

    def whole(self, place: int, choice: int, output: Output) -> dict[str, Any]:
        message = {"role": "assistant", "content": output.text, "refusal": None}
        return self.choice(place, choice, output, {"message": message}, self._logprobs(output), first=True)

    def opening(self, choice: int) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, place: int, choice: int, output: Output, *, first: bool) -> dict[str, Any]:
        said = {"delta": {"content": output.text}}
        return self.choice(place, choice, output, said, self._logprobs(output), first=first)

    def _logprobs(self, output: Output) -> dict[str, Any] | None:
        if not self._asked.logprobs:
            return None
        return chat_logprobs(self._text, output.logprobs, as_ids=self._asked.return_tokens_as_token_ids)
