"""The endpoints that generate: from a request to its answer."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from engine.http.admission import Asked, Order, form_of, let_in, order
from engine.http.answer import Answer
from engine.http.bodies import Body, whole_body
from engine.http.bridge import Wakeups
from engine.http.gate import Gate, Served
from engine.http.settings import HttpLimits
from engine.http.work import away, by_size


class Generate:
    """Answers requests of ``kind``."""

    def __init__(self, kind: type[Asked], gate: Gate, limits: HttpLimits, wakeups: Callable[[], Wakeups]) -> None:
        self._kind, self._gate, self._limits, self._wakeups = kind, gate, limits, wakeups

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request takes a place when its whole body has come, so that clients who let theirs drip keep none from others."""
        request, most = Request(scope, receive), self._limits.requests
        self._gate.enter()
        self._gate.check_place(most)  # who would find none need not send a body
        with ExitStack() as taken:
            async with whole_body(request, self._limits, self._gate) as body:
                taken.enter_context(self._gate.place(most))
                ordered = await self._order(body, self._gate.enter())
            await self._answer(ordered, request, send)

    async def _answer(self, ordered: Order, request: Request, send: Send) -> None:
        served = self._gate.enter()  # reading the body took its time
        wanted = ordered.asked.request_id or _named(request.headers.get("x-request-id"))
        outputs = let_in(ordered, served, self._limits, wanted, self._wakeups(), self._gate.come_again())
        form, name = form_of(ordered, served, outputs, wanted, int(time.time()))
        answer = Answer(ordered, served, outputs, form, name, self._limits.request_seconds)
        try:
            await answer(request.scope, request.receive, send)
        finally:
            self._gate.pace.ended(time.monotonic())

    async def _order(self, body: Body, served: Served) -> Order:
        def make() -> Order:
            return order(self._kind, body, served, self._limits)

        return await (away(make) if self._kind.TEMPLATED else by_size(body, make))


def _named(header: str | None) -> str | None:
    """The id in a header: clients write it in UTF-8, and servers read headers as Latin-1."""
    if not header:
        return None
    try:
        return header.encode("latin-1").decode()
    except ValueError:
        return header
