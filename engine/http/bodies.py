"""A request's body: read in bounded time and room, and taken as JSON only where every part of it can be.

What the JSON reader of Python lets pass (NaN, Infinity, numbers of thousands of digits, halves of surrogate pairs, arrays a
thousand deep) is refused here by the place where it stands.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from engine.http.errors import ApiError, busy, invalid
from engine.http.gate import Gate
from engine.http.settings import HttpLimits

Body = bytes | bytearray

_WHOLE = range(-(1 << 63), 1 << 64)


class Gone(Exception):
    """The client has left; nobody hears an answer."""


@asynccontextmanager
async def whole_body(request: Request, limits: HttpLimits, gate: Gate) -> AsyncIterator[Body]:
    """The whole body, which takes of the room that all bodies have until the context ends: one that waits to be taken apart
    lies in memory too. Raises `ApiError` for one that is no JSON by its own word, too large or too slow, or for which there is
    no room, and `Gone`."""
    _check_kind(request, limits)
    pieces = bytearray()
    try:
        await _read(pieces, request, limits, gate)
        yield pieces
    finally:
        gate.body_bytes -= len(pieces)


def _check_kind(request: Request, limits: HttpLimits) -> None:
    """Raises `ApiError` for a body that need not be read to be refused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # A web page may send anything else to any machine without asking first.
        raise ApiError(415, "the body must be JSON and say so: Content-Type: application/json", code="content_type")
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) not in ("", "identity"):
        raise ApiError(415, f"the body must come as it is, not as {coding!r:.40}", code="content_encoding")
    told = request.headers.get("content-length")
    if told is not None and told.isdecimal() and int(told[:20]) > limits.body_bytes:
        raise _too_large(limits)


async def _read(pieces: bytearray, request: Request, limits: HttpLimits, gate: Gate) -> None:
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                pieces += piece
                gate.body_bytes += len(piece)
                if len(pieces) > limits.body_bytes:
                    raise _too_large(limits)
                if gate.body_bytes > limits.bodies_bytes:
                    raise busy("the bodies of other requests take all the room that there is for them")
    except TimeoutError:
        raise ApiError(
            408,
            f"the body did not come within {limits.body_seconds:g} s",
            code="body_timeout",
            headers={"Connection": "close"},
        ) from None
    except ClientDisconnect:
        raise Gone from None


def _too_large(limits: HttpLimits) -> ApiError:
    return ApiError(413, f"the body is larger than {limits.body_bytes} bytes", code="body_too_large")


def parse_body(body: Body, limits: HttpLimits) -> dict[str, Any]:
    """The JSON object in ``body``. Raises `ApiError` naming the place."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}") from None
    try:
        given = json.loads(text)
    except RecursionError:
        raise _too_deep(limits) from None
    except ValueError as error:
        raise invalid(f"the body is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise invalid("the body must be a JSON object")
    _check(given, "", limits.depth, limits)
    return given


def _too_deep(limits: HttpLimits) -> ApiError:
    return invalid(f"the body is nested deeper than {limits.depth} levels", code="too_deep")


def _check(value: Any, place: str, levels: int, limits: HttpLimits) -> None:
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise invalid(f"{place}: {value} is not a finite number", place)
    elif isinstance(value, int):
        if value not in _WHOLE:
            raise _too_long(value, place)
    elif isinstance(value, dict | list):
        if not levels:
            raise _too_deep(limits)
        if isinstance(value, list):
            if value and all(type(each) is int for each in value):  # a prompt of token ids
                if not (min(value) in _WHOLE and max(value) in _WHOLE):
                    number = next(number for number, each in enumerate(value) if each not in _WHOLE)
                    raise _too_long(value[number], f"{place}[{number}]")
                return
            for number, each in enumerate(value):
                _check(each, f"{place}[{number}]", levels - 1, limits)
            return
        for name, each in value.items():
            _check_text(name, place or "the body's own names")
            _check(each, f"{place}.{name}" if place else name, levels - 1, limits)


def _too_long(value: int, place: str) -> ApiError:
    return invalid(f"{place}: a number of {value.bit_length()} bits is more than any field takes", place)


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise invalid(f"{place}: U+{code:04X} is half of a surrogate pair", place) from None
