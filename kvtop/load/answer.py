"""Reads the events of a streamed answer into a `Sample`: completions or chat, with or without usage."""

import json
import math
from typing import Any

from kvtop.errors import one_line
from kvtop.load.sample import Failure, Sample
from kvtop.load.sse import MalformedStream

MOST_DETAIL = 200


class Answer:
    """``text`` is what the first choice has said so far."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._text: list[str] = []
        self._unfinished = sample.choices
        self.ended = False
        """Whether the stream has said that nothing follows."""

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def complete(self) -> bool:
        """Whether every choice has told how it finished, or the end was said."""
        return self.ended or self._unfinished <= 0

    def event(self, data: str, now: float) -> bool:
        """Takes one event that came at ``now``; whether it brought text. Raises `MalformedStream`."""
        if self.ended:
            return False
        if data.strip() == "[DONE]":
            self.ended = True
            return False
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            raise MalformedStream(f"an event that is not JSON: {one_line(data, 60)}") from None
        if not isinstance(chunk, dict):
            raise MalformedStream(f"an event that is no object: {one_line(data, 60)}")
        if chunk.get("error"):
            self._sample.failure, self._sample.detail = Failure.REPORTED, error_text(chunk)
            self.ended = True
            return False
        self._usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if choices is None and isinstance(chunk.get("usage"), dict):
            return False
        if not isinstance(choices, list):
            raise MalformedStream(f"an event without choices: {one_line(data, 60)}")
        brought = False
        for choice in choices:
            if not isinstance(choice, dict):
                raise MalformedStream("a choice that is no object")
            brought |= self._choice(choice, now)
        return brought

    def _choice(self, choice: dict[str, Any], now: float) -> bool:
        text = choice.get("text")
        delta = choice.get("delta")
        if isinstance(delta, dict):
            said = (delta.get(name) for name in ("reasoning_content", "reasoning", "content"))
            text = "".join(part for part in said if isinstance(part, str))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._unfinished -= 1
            if self._sample.finish_reason is None or reason != "length":
                self._sample.finish_reason = one_line(reason, 40)
        if not isinstance(text, str) or not text:
            return False
        self._sample.tokens_at.append(now)
        if choice.get("index") in (0, None):
            self._text.append(text)
        return True

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        sample = self._sample
        sample.prompt_tokens = _count(usage.get("prompt_tokens"), sample.prompt_tokens)
        sample.output_tokens = _count(usage.get("completion_tokens"), sample.output_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            sample.cached_tokens = _count(details.get("cached_tokens"), sample.cached_tokens)


def failure_of(status: int) -> Failure:
    """Of any status but 200."""
    if status == 429:
        return Failure.TOO_MANY
    if status == 503:
        return Failure.UNAVAILABLE
    if status < 400:
        return Failure.MALFORMED
    return Failure.SERVER_ERROR if status >= 500 else Failure.CLIENT_ERROR


def error_text(body: Any) -> str:
    """The sentence of an error in the forms that servers use, on one line."""
    said = body
    for _ in range(3):
        if not isinstance(said, dict):
            break
        said = next((said[name] for name in ("error", "message", "detail") if said.get(name)), "")
    return one_line(said if isinstance(said, str) else json.dumps(said, default=str), MOST_DETAIL)


def retry_after(header: str | None) -> float | None:
    """Seconds; a date is not worked out."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _count(value: Any, otherwise: int | None) -> int | None:
    return value if type(value) is int and 0 <= value < 10**12 else otherwise
