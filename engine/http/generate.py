"""The endpoints that generate: from a request to its answer."""

import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from engine.http.admission import Asked, Order, form_of, let_in, order
from engine.http.answer import Answer
from engine.http.bodies import Body, whole_body
from engine.http.bridge import Wakeups
from engine.http.chat import ChatRequest
from engine.http.errors import busy
from engine.http.gate import Gate, Served
from engine.http.settings import HttpLimits
from engine.http.work import away, by_size


class Generate:
    """Answers requests of ``kind``."""

    def __init__(self, kind: type[Asked], gate: Gate, limits: HttpLimits, wakeups: Callable[[], Wakeups]) -> None:
        self._kind, self._gate, self._limits, self._wakeups = kind, gate, limits, wakeups

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate.enter()
        if self._gate.active >= self._limits.requests:
            raise busy(f"{self._gate.active} requests are being answered, and {self._limits.requests} is the most")
        self._gate.active += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._gate.active -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        async with whole_body(request, self._limits, self._gate) as body:
            ordered = await self._order(body, self._gate.enter())
        served = self._gate.enter()  # reading it took its time
        wanted = ordered.asked.request_id or _named(request.headers.get("x-request-id"))
        outputs = let_in(ordered, served, self._limits, wanted, self._wakeups())
        form, name = form_of(ordered, served, outputs, wanted, int(time.time()))
        await Answer(ordered, served, outputs, form, name, self._limits.request_seconds)(scope, receive, send)

    async def _order(self, body: Body, served: Served) -> Order:
        def make() -> Order:
            return order(self._kind, body, served, self._limits)

        return await (away(make) if self._kind is ChatRequest else by_size(body, make))


def _named(header: str | None) -> str | None:
    """The id in a header: clients write it in UTF-8, and servers read headers as Latin-1."""
    if not header:
        return None
    try:
        return header.encode("latin-1").decode()
    except ValueError:
        return header
