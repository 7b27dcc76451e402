"""A small HTTP server that answers as it is told: as this API wants it, or in all the ways in which servers fail."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Call:
    """One request as it came, and the way back."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, document: dict[str, Any] | str) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        await self.chunk(f"data: {text}\n\n".encode())

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def answer(self, status: int, document: Any, *headers: str) -> None:
        body = json.dumps(document).encode()
        lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}", *headers]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    @property
    def chat(self) -> bool:
        return self.path == "/v1/chat/completions"

    def piece(self, text: str, reason: str | None = None, index: int = 0) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "finish_reason": reason}
        choice |= {"delta": {"content": text}} if self.chat else {"text": text}
        return {"choices": [choice]}


Behaviour = Callable[[Call], Awaitable[None]]


async def well(call: Call, *, usage: bool = True, done: bool = True) -> None:
    """As many tokens as were asked for, of each choice."""
    await call.send(STREAM_HEAD)
    if call.chat:
        await call.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    wanted, choices = call.body["max_tokens"], call.body.get("n", 1)
    for token in range(wanted):
        for index in range(choices):
            await call.event(call.piece(" w", "length" if token == wanted - 1 else None, index))
    if usage:
        asked = call.body.get("prompt") or " ".join(message["content"] for message in call.body["messages"])
        counted = {"prompt_tokens": len(asked.split()), "completion_tokens": wanted * choices}
        await call.event({"choices": [], "usage": {**counted, "prompt_tokens_details": {"cached_tokens": 1}}})
    if done:
        await call.event("[DONE]")
    await call.end()


@dataclass
class Server:
    url: str = ""
    behaviours: Iterable[Behaviour] = ()
    """For one request each; those after them are answered well."""
    models: Any = field(
        default_factory=lambda: {"data": [{"id": "m", "owned_by": "test", "root": "m.gguf", "max_model_len": 4096}]}
    )
    models_status: int = 200
    tokenizes: bool = True
    like_llama: bool = False
    """Speaks of itself as llama-server does."""
    elsewhere: Behaviour | None = None
    """How everything is answered that is neither the list of models nor a streamed request."""
    calls: list[Call] = field(default_factory=list)
    open_now: int = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_now += 1
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and await self._one(head, reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.open_now -= 1
            writer.close()

    async def _one(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        call = Call(first.split()[1], headers, json.loads(raw or b"{}"), writer)
        if call.path == "/v1/models":
            await call.answer(self.models_status, self.models)
        elif self.elsewhere is not None and not call.body.get("stream"):
            await self.elsewhere(call)
        elif call.path == "/props" and self.like_llama:
            await call.answer(200, {"default_generation_settings": {"n_ctx": 2048}, "build_info": "b11434-x"})
        elif call.path == "/tokenize" and self.like_llama:
            # With a token for the beginning, as some vocabularies have it; what it does not know it takes for nothing.
            text = call.body.get("content")
            await call.answer(200, {"tokens": [] if text is None else [1, *text.split()]})
        elif call.path == "/tokenize" and self.tokenizes:
            await call.answer(200, {"count": len(call.body["prompt"].split())})
        elif call.path.startswith("/v1/") and call.body.get("stream"):
            self.calls.append(call)
            await next(self._script, well)(call)
        else:
            await call.answer(404, {"error": {"message": "no such place"}})
        return not writer.is_closing()

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Server]":
        self._script = iter(self.behaviours)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
