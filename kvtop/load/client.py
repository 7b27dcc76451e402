"""One streamed request over HTTP, whatever the server does with it. Over the connections of `slots`."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from kvtop import __version__
from kvtop.errors import one_line, system_error
from kvtop.load.answer import MOST_DETAIL, Answer, error_text, failure_of, retry_after
from kvtop.load.driver import Exchange, Said
from kvtop.load.plan import Session, Turn
from kvtop.load.prompts import Writer
from kvtop.load.sample import Failure, Sample
from kvtop.load.slots import Slots
from kvtop.load.sse import EventReader, MalformedStream
from kvtop.load.target import Dialect

MOST_ERROR_BYTES = 64 * 1024

LINGER = 1.0
"""Seconds a connection whose answer is complete may take to end it; then it is closed and not used again."""


CONNECT_WITHIN = 10.0
"""Seconds; a server that takes longer to take a connection is as good as none."""


def http_client(url: str, token: str | None, *, timeout: float) -> httpx.AsyncClient:
    """A client for one server; ``timeout`` seconds between two pieces of an answer."""
    headers = {"user-agent": f"kvtop-load/{__version__}", "accept-encoding": "identity"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_WITHIN)),
        transport=Slots(secure=url.startswith("https")),
        trust_env=False,
        follow_redirects=False,
    )


class Client:
    """Makes `Exchange`s for one server. ``timeout``: seconds a whole answer may take."""

    def __init__(self, http: httpx.AsyncClient, dialect: Dialect, writer: Writer, timeout: float) -> None:
        self._http = http
        self._dialect = dialect
        self._writer = writer
        self._timeout = timeout
        self._path = "/v1/chat/completions" if dialect.api == "chat" else "/v1/completions"

    def prepare(self, session: Session, turn: Turn, said: Said) -> Exchange:
        text, body = self._dialect.write(self._writer, session, turn, said)
        request = self._http.build_request(
            "POST",
            self._path,
            content=body,
            headers={"content-type": "application/json", "accept": "text/event-stream"},
        )
        return _Exchange(self._http, request, (*said, ("user", text)), self._timeout)


@dataclass(slots=True)
class _Exchange:
    http: httpx.AsyncClient
    request: httpx.Request
    said: Said
    timeout: float

    async def send(self, sample: Sample, clock: Callable[[], float]) -> Said:
        answer = Answer(sample)
        # So that it is found again on the engine's screen and in the server's log.
        self.request.headers["x-request-id"] = sample.name
        try:
            async with asyncio.timeout(self.timeout):
                await self._exchange(sample, answer, clock)
        except TimeoutError:
            _failed(sample, Failure.TIMEOUT, f"no complete answer within {self.timeout:g} s")
        except MalformedStream as error:
            _failed(sample, Failure.MALFORMED, str(error))
        except httpx.HTTPError as error:
            _failed(sample, *_told(error, self.timeout))
        except (OSError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            _failed(sample, Failure.MALFORMED, one_line(error, MOST_DETAIL))
        if sample.done is None:
            sample.done = clock()
        return (*self.said, ("assistant", answer.text))

    async def _exchange(self, sample: Sample, answer: Answer, clock: Callable[[], float]) -> None:
        response = await self.http.send(self.request, stream=True)
        try:
            sample.status = response.status_code
            if response.status_code != 200:
                await _refused(response, sample)
                return
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                _failed(
                    sample, Failure.MALFORMED, f"answered with {one_line(kind, 60) or 'no content type'}, not a stream"
                )
                return
            await self._stream(response, sample, answer, clock)
        finally:
            await response.aclose()

    async def _stream(
        self, response: httpx.Response, sample: Sample, answer: Answer, clock: Callable[[], float]
    ) -> None:
        reader = EventReader()
        pieces = response.aiter_bytes()
        last: float | None = None
        async for piece in pieces:
            for event in reader.feed(piece):
                last = clock()
                answer.event(event, last)
            if answer.ended:
                break
        if not answer.complete:
            _failed(sample, Failure.DROPPED, "the stream ended before the answer did")
            return
        sample.done = last  # not when the connection is done
        if sample.ok and answer.ended:
            with contextlib.suppress(TimeoutError, httpx.HTTPError):
                async with asyncio.timeout(LINGER):
                    async for _ in pieces:
                        pass  # so that the connection can be used again


async def _refused(response: httpx.Response, sample: Sample) -> None:
    sample.retry_after = retry_after(response.headers.get("retry-after"))
    body = bytearray()
    with contextlib.suppress(httpx.HTTPError):
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MOST_ERROR_BYTES:
                break
    try:
        said = error_text(json.loads(body))
    except (ValueError, RecursionError):
        said = one_line(body[:1000].decode(errors="replace"), MOST_DETAIL)
    _failed(sample, failure_of(response.status_code), f"HTTP {response.status_code}: {said}".rstrip(": "))


def _failed(sample: Sample, failure: Failure, detail: str) -> None:
    """The first cause stands."""
    if sample.failure is None:
        sample.failure, sample.detail = failure, detail


def _told(error: httpx.HTTPError, timeout: float) -> tuple[Failure, str]:
    """What an error of the client library means for the request."""
    said = one_line(error, MOST_DETAIL)
    match error:
        case httpx.ConnectTimeout():
            return Failure.CONNECT, f"not connected within {min(timeout, CONNECT_WITHIN):g} s"
        case httpx.ConnectError():
            return Failure.CONNECT, one_line(system_error(error) or said or "not connected", MOST_DETAIL)
        case httpx.TimeoutException():
            return Failure.TIMEOUT, f"nothing came for {timeout:g} s"
        case httpx.RemoteProtocolError() if "disconnected" not in said and "closed" not in said:
            return Failure.MALFORMED, f"not HTTP: {said}"
        case httpx.DecodingError() | httpx.UnsupportedProtocol() | httpx.TooManyRedirects():
            return Failure.MALFORMED, said
        case _:
            return Failure.DROPPED, said or "the connection broke"
