"""Connections without a common pool: the library's looks at every connection for every request, hundreds of them for each
of hundreds, which made a burst of 200 requests half a second late."""

import ssl
from collections.abc import AsyncIterator

import httpx

IDLE_CONNECTION = 3.0
"""Seconds after which an unused connection is not used again: below what servers keep them for."""


class Slots(httpx.AsyncBaseTransport):
    """Each request takes a connection of its own: the one that was used last of those that are free, else a new one."""

    def __init__(self, *, secure: bool) -> None:
        # One for all: each connection would make one otherwise, and read all the certificates there are, also without TLS.
        self._context = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._free: list[httpx.AsyncHTTPTransport] = []
        self._all: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        slot = self._free.pop() if self._free else self._new()
        try:
            response = await slot.handle_async_request(request)
        except BaseException:
            self._free.append(slot)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Returning(response.stream, slot, self._free)
        return response

    async def aclose(self) -> None:
        for slot in self._all:
            await slot.aclose()

    def _new(self) -> httpx.AsyncHTTPTransport:
        slot = httpx.AsyncHTTPTransport(
            verify=self._context,
            trust_env=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_CONNECTION),
        )
        self._all.append(slot)
        return slot


class _Returning(httpx.AsyncByteStream):
    """A response's stream that gives its slot back when it is closed."""

    def __init__(
        self, stream: httpx.AsyncByteStream, slot: httpx.AsyncHTTPTransport, free: list[httpx.AsyncHTTPTransport]
    ) -> None:
        self._stream = stream
        self._slot: httpx.AsyncHTTPTransport | None = slot
        self._free = free

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        slot, self._slot = self._slot, None
        if slot is None:
            return
        try:
            await self._stream.aclose()
        finally:
            self._free.append(slot)
