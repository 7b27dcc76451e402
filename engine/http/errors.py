"""Errors as OpenAI's clients know them: ``{"error": {"message", "type", "param", "code"}}``."""

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.words import flat

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}

MAX_MESSAGE = 1000
"""Characters; what a client sent comes back in it only in part."""

_PARAM = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<place>(?:\[\d+\]|\.\w+)*)(?: [\w ]+)?: ")
"""The field that a sentence of the engine's own checks begins with."""

_NAMES = {"token_ids": "prompt", "beam": "beam_width"}
"""What fields of a submission are called in a request."""


class ApiError(Exception):
    """What a client is told instead of an answer. ``param``: the field at fault; ``code``: for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.message = flat(message, MAX_MESSAGE)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def encoded(self) -> bytes:
        return json.dumps(self.body()).encode()


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def refused(error: ValueError) -> ApiError:
    """What the engine's own checks say, with the field that they name."""
    said = str(error)
    found = _PARAM.match(said)
    if found is None:
        return invalid(said)
    name, place = found.group("name"), found.group("place")
    name = _NAMES.get(name, name)
    return invalid(name + said[found.end("name") :], name + place)


def busy(message: str, after: int = 1) -> ApiError:
    """Come again in ``after`` seconds."""
    return ApiError(429, message, code="busy", headers={"Retry-After": str(after)})


def unavailable(message: str, code: str, after: int = 2) -> ApiError:
    return ApiError(503, message, code=code, headers={"Retry-After": str(after)})
