"""One connection of a client, with deadlines that uvicorn does not have: for headers, and for a client that takes nothing."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.http.errors import ApiError, invalid, unavailable
from engine.http.settings import HttpLimits
from engine.words import counted


class _Deadline:
    """Calls ``late`` where it is not stopped in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, late: Callable[[], None]) -> None:
        self._loop, self._seconds, self._late = loop, seconds, late
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on, unless it runs already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._late)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connection(H11Protocol):
    """``limits`` are those of the subclass that `connection_class` makes."""

    limits: HttpLimits

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.app_state = {**self.app_state, "connection": self}
        self._headers_due = _Deadline(self.loop, self.limits.header_seconds, self.abort)
        self._reading_due = _Deadline(self.loop, self.limits.write_seconds, self.abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        _ask_whether_it_lives(transport.get_extra_info("socket"))
        full = len(self.connections) >= self.limits.connections
        super().connection_made(transport)
        if full:
            self._refuse(
                unavailable(f"no more than {counted(self.limits.connections, 'connection')} can be open", "connections")
            )
        else:
            self._headers_due.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due.stop()
        self._reading_due.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Between two requests uvicorn's own timer runs until something comes; from then on this one. What comes of a body
        # that has been answered already is such a time too.
        if self.cycle is not None and not self.cycle.response_complete:
            self._headers_due.stop()
        elif not self.transport.is_closing():
            self._headers_due.start()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_due.start()

    def resume_writing(self) -> None:
        self._reading_due.stop()
        super().resume_writing()

    def abort(self) -> None:
        """End it now, whatever has not been sent."""
        if self.transport is not None:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(
            invalid("this is not an HTTP request that is understood, or its headers are too long", code="http")
        )

    def _refuse(self, error: ApiError) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error.encoded()
            headers = [*error.headers.items(), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            pieces: list[Any] = [
                h11.Response(status_code=error.status, headers=[*headers, ("Connection", "close")]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for piece in pieces:
                self.transport.write(self.conn.send(piece) or b"")
        self.transport.close()


def connection_of(scope: Scope) -> Connection | None:
    """The connection that a request came on; None where it came in another way, as in tests."""
    found: Connection | None = scope.get("state", {}).get("connection")
    return found


def _ask_whether_it_lives(connection: socket.socket | None) -> None:
    """A machine that went without a word is noticed in a minute, though its request runs for long and nothing is sent."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def connection_class(limits: HttpLimits) -> type[Connection]:
    """Connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})
