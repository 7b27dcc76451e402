"""Counts what the HTTP server answered. All of it is of the server's own thread."""

from collections import Counter
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

OTHER = "other"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Answers:
    """Around ``app``. ``routes``: paths that are told apart, as the router has them; whatever else is asked for is `OTHER`,
    so that nobody can make up more series."""

    def __init__(
        self, app: ASGIApp, routes: Iterable[str], responses: Counter[tuple[str, str, int]], aborts: Counter[str]
    ) -> None:
        self._app = app
        self._exact = {route for route in routes if "{" not in route}
        self._below = {route.partition("{")[0]: route.replace(":path", "") for route in routes if "{" in route}
        self._responses, self._aborts = responses, aborts
        for route in (*self._exact, *self._below.values()):
            aborts[route] = 0  # there from the beginning: what appears with a 1 is no rise to Prometheus

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route(scope["path"])
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        ended = gone = False

        async def counting(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                self._responses[route, method, message["status"]] += 1
            elif not message.get("more_body", False):
                ended = True
            await send(message)

        async def noticing() -> Message:
            nonlocal gone
            message = await receive()
            if message["type"] == "http.disconnect" and not (ended or gone):
                gone = True
                self._aborts[route] += 1
            return message

        await self._app(scope, noticing, counting)

    def _route(self, path: str) -> str:
        if path in self._exact:
            return path
        return next((route for start, route in self._below.items() if path.startswith(start)), OTHER)
