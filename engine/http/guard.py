"""Who may ask: a bearer token where there is one; without one, no web page by a name that leads to this machine."""

import hmac
import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from engine.http.errors import ApiError
from engine.http.settings import HttpConfig

OPEN = frozenset({"/health"})
"""What everybody may ask: it tells no more than whether the engine serves."""


class Guard:
    """Before ``app``: raises `ApiError` for those who may not ask."""

    def __init__(self, app: ASGIApp, config: HttpConfig) -> None:
        self._app = app
        self._config = config
        self._expected = f"bearer {config.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if self._config.token:
            if scope["path"] not in OPEN and not self._has_token(headers.get(b"authorization", b"")):
                raise ApiError(
                    401,
                    "a token is needed: Authorization: Bearer …, with the one that the engine was started with",
                    code="invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        elif self._config.guarded and not _is_this_machine(headers.get(b"host", b"").decode("latin-1")):
            raise ApiError(
                403,
                "Host: without a token this engine answers only to localhost or an IP address, not to other names",
                param="Host",
                code="host",
            )
        await self._app(scope, receive, send)

    def _has_token(self, given: bytes) -> bool:
        kind, _, token = given.partition(b" ")
        # In constant time, whatever was given.
        return hmac.compare_digest(kind.lower() + b" " + token.strip(), self._expected)


def _is_this_machine(host: str) -> bool:
    """Names of other machines can be made to lead here by whoever owns them; addresses and localhost cannot."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.strip("[]").lower()
    if name in ("", "localhost") or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
