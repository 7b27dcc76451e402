"""An answer on its way: whole, or in pieces as server-sent events, until it ends or its client has gone."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.http.admission import Order
from engine.http.bridge import Outputs
from engine.http.connection import connection_of
from engine.http.errors import ApiError, unavailable
from engine.http.form import Form, Tally
from engine.http.gate import Served
from engine.requests.stream import Output, joined

DONE = b"data: [DONE]\n\n"


class Answer:
    """``outputs`` in ``form``. The engine is told to end them when the client goes, and after ``seconds``."""

    def __init__(self, order: Order, served: Served, outputs: Outputs, form: Form, name: str, seconds: float) -> None:
        self._asked, self._served = order.asked, served
        self._outputs, self._form, self._name, self._seconds = outputs, form, name, seconds
        self._tally = Tally([len(prompt) for prompt in order.prompts])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(self._end_with_client(receive))
        try:
            if self._asked.stream:
                await self._stream(scope, send)
            else:
                await self._whole(scope, receive, send)
        finally:
            gone.cancel()
            self._outputs.cancel()

    async def _end_with_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._outputs.cancel()

    async def _pieces(self) -> AsyncIterator[list[tuple[int, int, Output]]]:
        """Batches of place of the prompt, number of the choice, and what is new of it. Raises `ApiError` where an output
        fails."""
        n = self._asked.n
        async for batch in self._outputs.batches():
            told = []
            for place, output in batch:
                if output.index >= n:
                    continue  # a beam that ranks behind those asked for
                if output.finish_reason == "abort" and self._served.server.stopping:
                    raise unavailable(output.detail or "the engine stopped", "stopped")
                if output.finish_reason == "error":
                    raise ApiError(500, output.detail or "the request failed", code="engine")
                self._tally.add(place, output)
                told.append((place, place * n + output.index, output))
            if told:
                yield told

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        choices: dict[int, tuple[int, list[Output]]] = {}
        try:
            async with asyncio.timeout(self._seconds):
                async for batch in self._pieces():
                    for place, number, output in batch:
                        choices.setdefault(number, (place, []))[1].append(output)
        except TimeoutError:
            raise self._too_long() from None
        if self._outputs.gone:
            return
        told = [self._form.whole(place, number, joined(pieces)) for number, (place, pieces) in sorted(choices.items())]
        body = self._form.head() | {"choices": told, "usage": self._tally.usage()}
        headers = {"Content-Type": "application/json", "X-Request-Id": _header(self._name).decode("latin-1")}
        await Response(_dumps(body), headers=headers)(scope, receive, send)

    def _too_long(self) -> ApiError:
        return ApiError(504, f"the answer was not complete after {self._seconds:g} s", code="request_timeout")

    async def _stream(self, scope: Scope, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-request-id", _header(self._name)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async with asyncio.timeout(self._seconds):
                await self._send_events(send)
        except TimeoutError:
            # Of a client that takes nothing there is no waiting any more, not even to tell it.
            if (connection := connection_of(scope)) is not None and connection.flow.write_paused:
                connection.abort()
                return
            await _send_error(send, self._too_long())
        except ApiError as error:
            await _send_error(send, error)
        await send({"type": "http.response.body", "body": DONE, "more_body": False})

    async def _send_events(self, send: Send) -> None:
        options = self._asked.stream_options
        head, opened = self._form.head(), set[int]()
        lacks_usage = {"usage": None} if options.include_usage else {}
        async for batch in self._pieces():
            events = []
            for place, number, output in batch:
                usage = {"usage": self._tally.usage()} if options.continuous_usage_stats else lacks_usage
                first = number not in opened
                if first and (opening := self._form.opening(number)) is not None:
                    events.append(_event(head | {"choices": [opening]} | usage))
                opened.add(number)
                events.append(
                    _event(head | {"choices": [self._form.piece(place, number, output, first=first)]} | usage)
                )
            await send({"type": "http.response.body", "body": b"".join(events), "more_body": True})
        if options.include_usage:
            last = _event(head | {"choices": [], "usage": self._tally.usage()})
            await send({"type": "http.response.body", "body": last, "more_body": True})


def _header(name: str) -> bytes:
    """An id, which may be of any characters, as the value of a header."""
    return name.strip().encode()


async def _send_error(send: Send, error: ApiError) -> None:
    with contextlib.suppress(OSError):
        await send({"type": "http.response.body", "body": b"data: " + error.encoded() + b"\n\n", "more_body": True})


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


def _dumps(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _event(value: Any) -> bytes:
    return b"data: " + _dumps(value) + b"\n\n"
