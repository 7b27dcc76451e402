"""Log-probabilities of chosen tokens, in the form of each API. Nats, by the model alone; see `engine.requests.logprobs`."""

import codecs
from collections.abc import Sequence
from typing import Any

from engine.http.gate import Text
from engine.requests.logprobs import TokenLogprob

LEAST = -9999.0
"""Told instead of what is less: JSON has no infinity."""


def token_text(text: Text, token: int, *, as_id: bool = False) -> str:
    """One token as a client reads it: part of a character as ``bytes:\\x…``, as OpenAI writes it, a special token by its
    name."""
    if as_id:
        return f"token_id:{token}"
    data = text.token_bytes(token)
    if not data:
        return text.token_name(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


class CompletionLogprobs:
    """Of one output of a completion, in the order of its tokens."""

    def __init__(self, text: Text, *, as_ids: bool) -> None:
        self._text, self._as_ids = text, as_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._characters = 0

    def write(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """``text_offset``: characters of the output before each token."""
        told: dict[str, list[Any]] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
        for token in tokens:
            told["text_offset"].append(self._characters)
            told["tokens"].append(self._name(token.token_id))
            told["token_logprobs"].append(max(LEAST, token.logprob))
            told["top_logprobs"].append(self._tops(token))
            self._characters += len(self._decoder.decode(self._text.token_bytes(token.token_id)))
        return told

    def _tops(self, token: TokenLogprob) -> dict[str, float]:
        """The likeliest and the chosen one; of tokens that read alike the likelier."""
        tops: dict[str, float] = {}
        for each, logprob in (*token.top, (token.token_id, token.logprob)):
            tops.setdefault(self._name(each), max(LEAST, logprob))
        return tops

    def _name(self, token: int) -> str:
        return token_text(self._text, token, as_id=self._as_ids)


def chat_logprobs(text: Text, tokens: Sequence[TokenLogprob], *, as_ids: bool) -> dict[str, Any]:
    """Of an output of a chat."""

    def one(token: int, logprob: float) -> dict[str, Any]:
        name, data = token_text(text, token, as_id=as_ids), list(text.token_bytes(token))
        return {"token": name, "logprob": max(LEAST, logprob), "bytes": data}

    return {
        "content": [
            one(each.token_id, each.logprob) | {"top_logprobs": [one(*top) for top in each.top]} for each in tokens
        ],
        "refusal": None,
    }
