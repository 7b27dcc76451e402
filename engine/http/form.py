"""What answers are made of, whatever their form, and the tokens they took."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.http.schema import Common
from engine.requests.stream import Output


@dataclass(slots=True)
class Tally:
    """Tokens of one body's requests so far. ``prompts``: tokens of each prompt."""

    prompts: Sequence[int]
    output: int = 0
    cached: dict[int, int] = field(default_factory=dict)

    def add(self, place: int, output: Output) -> None:
        """``output`` of the request for prompt ``place``."""
        self.output += len(output.token_ids)
        if output.usage is not None and output.index == 0:
            self.cached[place] = min(output.usage.cached_tokens, self.prompts[place])

    def usage(self) -> dict[str, Any]:
        prompt = sum(self.prompts)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": self.output,
            "total_tokens": prompt + self.output,
        }
        # Known when a prompt's first output has ended; until then nothing is said of it.
        if len(self.cached) == len(self.prompts):
            usage["prompt_tokens_details"] = {"cached_tokens": sum(self.cached.values())}
        return usage


class Form(Protocol):
    """How one kind of answer is written."""

    def head(self) -> dict[str, Any]:
        """What all answers and chunks of it begin with."""
        ...

    def whole(self, place: int, choice: int, output: Output) -> dict[str, Any]:
        """Choice number ``choice``, an output for prompt ``place``."""
        ...

    def opening(self, choice: int) -> dict[str, Any] | None:
        """What comes before its first piece."""
        ...

    def piece(self, place: int, choice: int, output: Output, *, first: bool) -> dict[str, Any]:
        """What is new of it. ``first``: nothing of it has been told before."""
        ...


class ChoiceForm:
    """What all kinds have in common. ``kind``: of object; ``name``: id of the answer; ``created``: seconds since 1970;
    ``prompts``: token ids of each."""

    def __init__(
        self, kind: str, asked: Common, name: str, model: str, created: int, prompts: Sequence[Sequence[int]]
    ) -> None:
        self._return_token_ids, self._prompts = asked.return_token_ids, prompts
        self._head = {"id": name, "object": kind, "created": created, "model": model}

    def head(self) -> dict[str, Any]:
        return self._head

    def choice(
        self,
        place: int,
        choice: int,
        output: Output,
        said: dict[str, Any],
        logprobs: dict[str, Any] | None,
        *,
        first: bool,
    ) -> dict[str, Any]:
        """Choice number ``choice``, for prompt ``place``: what it has ``said`` in the words of its kind, and how it stands."""
        told = {
            "index": choice,
            **said,
            "logprobs": logprobs,
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
        }
        if self._return_token_ids:
            told["token_ids"] = list(output.token_ids)
            if first:
                told["prompt_token_ids"] = self._prompts[place]
        return told
