"""What a server says of itself before the load, and what its words cost in tokens."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import httpx

from kvtop.errors import UserError, one_line, system_error
from kvtop.load.answer import error_text
from kvtop.load.prompts import CHARACTERS_A_TOKEN, WORDS, Writer, estimated_costs

ASKED_AT_ONCE = 4
MOST_NAME = 200

MOST_ID = 4096
"""Characters of a model's id, which is asked for whole: some servers call a model by its path."""

ANSWER_WITHIN = 20.0
"""Seconds for each question, to the end of its answer; what answers later is not fit to be loaded."""

MOST_ANSWER_BYTES = 16 * 1024 * 1024
"""Of one answer; gateways that list hundreds of models with all there is to say of them stay far below."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """An answer that has come whole."""

    url: str
    status: int
    content: bytes
    software: str | None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """None: it does not say."""

    model: str
    models: tuple[str, ...] = ()
    owner: str | None = None
    root: str | None = None
    """What the model was loaded from, where that is not its name."""
    context: int | None = None
    """Tokens of the longest request, prompt and answer."""
    version: str | None = None
    software: str | None = None


async def ask(http: httpx.AsyncClient, model: str | None) -> ServerFacts:
    """Raises `UserError` in a sentence where nobody answers, or what answers has no models."""
    try:
        response = await _asked(http, "GET", "/v1/models")
    except httpx.HTTPError as error:
        why = system_error(error) or one_line(error) or type(error).__name__
        raise UserError(f"no server answers at {http.base_url}: {why}", "is it started, and listens there?") from None
    if response.status == 503:
        said = error_text(_object(response))
        raise UserError(
            f"{http.base_url} does not serve yet, or no more: {said or 'HTTP 503'}", "wait for it, then again"
        )
    if response.status in (401, 403):
        if "authorization" in http.headers:
            raise UserError(f"{http.base_url} does not take this token", "put another into KVTOP_LOAD_TOKEN")
        raise UserError(f"{http.base_url} asks for a token", "put it into KVTOP_LOAD_TOKEN")
    if response.status != 200 and (model is None or response.status != 404):
        raise UserError(f"{response.url} answers with HTTP {response.status}", "is it an OpenAI-compatible server?")
    listed = _object(response).get("data")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = tuple(one_line(entry["id"], MOST_ID) for entry in entries if isinstance(entry.get("id"), str))
    chosen = model or (names[0] if names else None)
    if chosen is None:
        raise UserError(f"{http.base_url} lists no model", "name one: --model ID")
    entry = next((entry for entry in entries if entry.get("id") == chosen), {})
    version = _object(await _get(http, "/version")).get("version")
    props = _object(await _get(http, "/props"))
    build = props.get("build_info")
    settings = props.get("default_generation_settings")
    slot_context = settings.get("n_ctx") if isinstance(settings, dict) else None
    return ServerFacts(
        chosen,
        names,
        _name(entry.get("owned_by")),
        _name(entry.get("root")),
        _positive(entry.get("max_model_len")) or _positive(slot_context),
        _name(version) or _name(build),
        _name(response.software),
    )


async def writer_for(http: httpx.AsyncClient, model: str) -> Writer:
    """A writer by the server's own tokenizer, else by what one prompt came to, else by what is usual in English."""
    if (costs := await _tokenized(http, model)) is not None:
        # Without words of one token among them (as where each byte is one) not every length can be met.
        return Writer(costs, exact=min(costs.values()) == 1)
    return Writer(estimated_costs(await _characters_a_token(http, model)), exact=False)


async def _tokenized(http: httpx.AsyncClient, model: str) -> dict[str, float] | None:
    """What each word costs in the middle of a text; None where the server does not tokenize."""
    for body in (_in_form_of_vllm, _in_form_of_llama_server):
        one, two = [await _tokens(http, body(model, text)) for text in (" river", " river river")]
        if not one or two is None:
            continue
        added = 2 * one - two  # such as a token for the beginning
        gate = asyncio.Semaphore(ASKED_AT_ONCE)

        async def cost(word: str, body: Any = body, added: int = added, gate: asyncio.Semaphore = gate) -> int:
            async with gate:
                return (await _tokens(http, body(model, f" {word}")) or 0) - added

        found = await asyncio.gather(*(cost(word) for word in WORDS))
        costs = {word: float(tokens) for word, tokens in zip(WORDS, found, strict=True) if tokens > 0}
        return costs or None
    return None


async def _characters_a_token(http: httpx.AsyncClient, model: str) -> float:
    text = " ".join(WORDS * 4)
    body = {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0}
    try:
        # The first prompt may have to wait for more than words: some servers load the model for it.
        response = await _asked(http, "POST", "/v1/completions", body, http.timeout.read)
        usage = _object(response).get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    except httpx.HTTPError:
        tokens = None
    if type(tokens) is not int or not len(text) / 20 <= tokens <= len(text):
        return CHARACTERS_A_TOKEN
    return len(text) / tokens


async def _tokens(http: httpx.AsyncClient, body: dict[str, Any]) -> int | None:
    try:
        response = await _asked(http, "POST", "/tokenize", body)
    except httpx.HTTPError:
        return None
    said = _object(response) if response.status == 200 else {}
    count, tokens = said.get("count"), said.get("tokens")
    if isinstance(tokens, list):
        return len(tokens)
    return count if type(count) is int and count >= 0 else None


def _in_form_of_vllm(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "add_special_tokens": False}


def _in_form_of_llama_server(model: str, text: str) -> dict[str, Any]:
    del model
    return {"content": text}


async def _asked(
    http: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None = None, within: float | None = None
) -> _Reply:
    """Raises httpx.HTTPError also for an answer that takes more than ``within`` seconds (`ANSWER_WITHIN`), is too long, or is a stream: one
    of those may never end."""
    within = within or ANSWER_WITHIN
    request = http.build_request(method, path, json=body, timeout=within)
    content = bytearray()
    try:
        async with asyncio.timeout(within):
            response = await http.send(request, stream=True)
            try:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise httpx.ReadError("a stream, which was not asked for")
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MOST_ANSWER_BYTES:
                        raise httpx.ReadError(f"an answer of more than {MOST_ANSWER_BYTES} bytes")
            finally:
                await response.aclose()
    except TimeoutError:
        raise httpx.ReadTimeout(f"no complete answer within {within:g} s") from None
    return _Reply(str(request.url), response.status_code, bytes(content), response.headers.get("server"))


async def _get(http: httpx.AsyncClient, path: str) -> _Reply | None:
    try:
        response = await _asked(http, "GET", path)
    except httpx.HTTPError:
        return None
    return response if response.status == 200 else None


def _object(response: _Reply | None) -> dict[str, Any]:
    if response is None:
        return {}
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def without_folder(name: str) -> str:
    """The last part of a path: some servers call a model by where its file is, which is nobody's business in a result."""
    return PurePath(name).name or name if name.startswith("/") else name


def _name(value: Any) -> str | None:
    return one_line(value, MOST_NAME) or None if isinstance(value, str) else None


def _positive(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
