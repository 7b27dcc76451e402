"""``POST /tokenize`` and ``/detokenize``, as vLLM has them: what a text is in tokens, and tokens in text."""

from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.http.admission import check_model
from engine.http.bodies import Body, parse_body, whole_body
from engine.http.chat import chat_prompt
from engine.http.errors import invalid, refused
from engine.http.gate import Gate, Served
from engine.http.logprobs import token_text
from engine.http.schema import Given, ListOf, read_fields
from engine.http.settings import HttpLimits
from engine.http.work import away


class TokenizeRequest(Given):
    """``prompt``: a text; or ``messages``: a conversation, as a chat's."""

    model: str | None = None
    prompt: str | None = None
    messages: ListOf[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    """With what the model begins every prompt with; of a prompt alone."""
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    return_token_strs: bool = False


class DetokenizeRequest(Given):
    model: str | None = None
    tokens: ListOf[int]


class Tokens:
    def __init__(self, gate: Gate, limits: HttpLimits) -> None:
        self._gate, self._limits = gate, limits

    async def tokenize(self, request: Request) -> Response:
        served = self._gate.enter()
        async with whole_body(request, self._limits, self._gate) as body:
            return JSONResponse(await away(lambda: self._tokenized(body, served)))

    async def detokenize(self, request: Request) -> Response:
        served = self._gate.enter()
        async with whole_body(request, self._limits, self._gate) as body:
            return JSONResponse(await away(lambda: self._text(body, served)))

    def _tokenized(self, body: Body, served: Served) -> dict[str, Any]:
        asked = read_fields(TokenizeRequest, parse_body(body, self._limits))
        check_model(asked.model, served)
        if (asked.prompt is None) == (asked.messages is None):
            raise invalid("prompt: give either prompt or messages", "prompt")
        try:
            if asked.prompt is not None:
                encode = served.text.encode_prompt if asked.add_special_tokens else served.text.encode
                ids = encode(asked.prompt)
            else:
                ids = chat_prompt(
                    served.text,
                    asked.messages or [],
                    asked.chat_template_kwargs,
                    add_generation_prompt=asked.add_generation_prompt,
                )
        except ValueError as error:
            raise refused(error) from None
        strings = [token_text(served.text, token) for token in ids] if asked.return_token_strs else None
        return {"count": len(ids), "max_model_len": served.context, "tokens": ids, "token_strs": strings}

    def _text(self, body: Body, served: Served) -> dict[str, Any]:
        asked = read_fields(DetokenizeRequest, parse_body(body, self._limits))
        check_model(asked.model, served)
        size = served.server.vocabulary.size
        for place, token in enumerate(asked.tokens):
            if not 0 <= token < size:
                raise invalid(
                    f"tokens[{place}]: {token:.0f} is not in the model's vocabulary, 0 to {size - 1}",
                    f"tokens[{place}]",
                )
        return {"prompt": served.text.decode(asked.tokens)}
