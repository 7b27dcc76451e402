"""``POST /v1/completions``: text or tokens that go on from a prompt."""

from typing import Any

from engine.http.errors import invalid
from engine.http.form import ChoiceForm
from engine.http.gate import Text
from engine.http.logprobs import CompletionLogprobs
from engine.http.schema import Common, ListOf
from engine.requests.stream import Output


class CompletionRequest(Common):
    """``prompt``: a text, token ids, or a list of either, each of which is answered by itself."""

    LABEL = "completion"
    PROMPT_FIELD = "prompt"

    prompt: str | ListOf[int] | ListOf[str] | ListOf[ListOf[int]]
    logprobs: int | None = None

    @property
    def told_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def output_tokens(self) -> int | None:
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def prompt_count(self) -> int:
        """Known before any of them is taken apart. Raises `ApiError` where there is none."""
        return len(self.texts())

    def texts(self) -> list[str | list[int]]:
        """Each prompt by itself. Raises `ApiError` where there is none."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if not prompt:
            raise invalid("prompt: there is none in the list", "prompt")
        if all(isinstance(each, int) for each in prompt):
            return [prompt]  # type: ignore[list-item]
        return list(prompt)  # type: ignore[arg-type]

    def prompts(self, text: Text) -> list[list[int]]:
        """Token ids of each prompt."""
        return [text.encode_prompt(each) if isinstance(each, str) else each for each in self.texts()]

    def form(self, text: Text, name: str, model: str, created: int, prompts: list[list[int]]) -> "CompletionForm":
        """How its answer is written."""
        return CompletionForm(self, text, name, model, created, prompts)


class CompletionForm(ChoiceForm):
    """Answers to ``asked``."""

    def __init__(
        self, asked: CompletionRequest, text: Text, name: str, model: str, created: int, prompts: list[list[int]]
    ) -> None:
        super().__init__("text_completion", asked, name, model, created, prompts)
        self._asked, self._text = asked, text
        self._logprobs: dict[int, CompletionLogprobs] = {}

    def whole(self, place: int, choice: int, output: Output) -> dict[str, Any]:
        return self.piece(place, choice, output, first=True)

    def opening(self, choice: int) -> dict[str, Any] | None:
        return None

    def piece(self, place: int, choice: int, output: Output, *, first: bool) -> dict[str, Any]:
        return self.choice(place, choice, output, {"text": output.text}, self._written(choice, output), first=first)

    def _written(self, choice: int, output: Output) -> dict[str, Any] | None:
        if self._asked.logprobs is None:
            return None
        if (logprobs := self._logprobs.get(choice)) is None:
            as_ids = self._asked.return_tokens_as_token_ids
            logprobs = self._logprobs[choice] = CompletionLogprobs(self._text, as_ids=as_ids)
        return logprobs.write(output.logprobs)
