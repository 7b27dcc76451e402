"""What can be asked, and of whom: the routes, each in its own file, and what becomes of faults."""

import asyncio
import contextlib
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.http.bodies import Gone
from engine.http.bridge import Wakeups
from engine.http.chat import ChatRequest
from engine.http.completions import CompletionRequest
from engine.http.connection import connection_of
from engine.http.errors import ApiError
from engine.http.facts import Facts
from engine.http.gate import Gate
from engine.http.generate import Generate
from engine.http.guard import Guard
from engine.http.metrics.answers import Answers
from engine.http.metrics.page import MetricsPage
from engine.http.settings import HttpConfig
from engine.http.tokens import Tokens
from engine.words import one_line


def application(
    gate: Gate, config: HttpConfig, fault: Callable[[str], None], connections: Callable[[], int] = lambda: 0
) -> ASGIApp:
    """``fault`` is told, in a line, of what should not have happened; ``connections``: of clients, now."""
    wakeups = _PerLoop()
    facts, tokens = Facts(gate), Tokens(gate, config.limits)
    metrics = MetricsPage(gate, config.metrics_names, connections)
    routes = [
        Route("/v1/completions", Generate(CompletionRequest, gate, config.limits, wakeups), methods=["POST"]),
        Route("/v1/chat/completions", Generate(ChatRequest, gate, config.limits, wakeups), methods=["POST"]),
        Route("/v1/models", facts.models),
        Route("/v1/models/{name:path}", facts.model),
        Route("/tokenize", tokens.tokenize, methods=["POST"]),
        Route("/detokenize", tokens.detokenize, methods=["POST"]),
        Route("/health", facts.health),
        Route("/version", facts.version),
        Route("/metrics", metrics.metrics),
    ]
    answering = Faults(Guard(Router(routes, redirect_slashes=False), config), fault)
    return Answers(answering, [route.path for route in routes], metrics.responses, metrics.aborts)


class _PerLoop:
    """The wakeups of the loop that asks; there is one loop."""

    def __init__(self) -> None:
        self._wakeups: Wakeups | None = None

    def __call__(self) -> Wakeups:
        if self._wakeups is None:
            self._wakeups = Wakeups(asyncio.get_running_loop())
        return self._wakeups


class Faults:
    """Around ``app``: what it raises becomes an answer, in the form of all others."""

    def __init__(self, app: ASGIApp, fault: Callable[[str], None]) -> None:
        self._app, self._fault = app, fault

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        scope["app"] = self  # with it the router raises what it does not find
        try:
            await self._app(scope, receive, noting)
        except Gone:
            if (connection := connection_of(scope)) is not None:
                connection.abort()
        except Exception as error:
            answer = self._answer(error)
            if begun:  # too late to tell; a broken stream must not look like a whole one
                if (connection := connection_of(scope)) is not None:
                    connection.abort()
                return
            headers = {**answer.headers, "Content-Type": "application/json"}
            with contextlib.suppress(OSError):
                await Response(answer.encoded(), answer.status, headers)(scope, receive, send)

    def _answer(self, error: Exception) -> ApiError:
        if isinstance(error, ApiError):
            return error
        if isinstance(error, HTTPException):
            what = {404: "there is no such place here", 405: "this place takes another method"}
            return ApiError(error.status_code, what.get(error.status_code, error.detail), headers=error.headers)
        self._fault(f"a request over HTTP failed: {one_line(error)}")
        return ApiError(500, "the server failed at this request", code="internal")
