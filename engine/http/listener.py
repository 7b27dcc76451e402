"""The HTTP server's own thread: it listens before the model is loaded, so that whoever asks is told to wait."""

import asyncio
import contextlib
import logging
import resource
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import uvicorn

from engine.http.app import application
from engine.http.connection import connection_class
from engine.http.drain import Drain
from engine.http.gate import Gate, Served, short_name
from engine.http.settings import HttpConfig, HttpLimits
from engine.serving.server import Server
from engine.words import counted, one_line

SPARE_FILES = 128
"""Files of the process that connections leave to the engine."""


class HttpServer:
    """Listens from the beginning; answers from `start` to `stop`, which a ``with`` does too. ``gate`` is opened by whoever
    has an engine."""

    def __init__(self, config: HttpConfig, fault: Callable[[str], None]) -> None:
        """Raises OSError, in a sentence, where the place cannot be had."""
        self.gate = Gate()
        self._fault = fault
        self._socket = _listen(config)
        self.host, self.port = self._socket.getsockname()[:2]
        limits = within_files(config.limits, files := _files())
        if limits.connections < min(config.limits.connections, config.limits.requests):
            fault(
                f"HTTP takes no more than {counted(limits.connections, 'connection')}: this process may have {files} files open, and the "
                f"engine needs some of them; ulimit -n {SPARE_FILES + config.limits.connections} is enough"
            )
        logging.getLogger("uvicorn").addHandler(logging.NullHandler())
        logging.getLogger("uvicorn").propagate = False
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(self.gate, config, fault, lambda: self.connections),
                http=connection_class(limits),
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=max(1, round(limits.idle_seconds)),
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """Of clients, now."""
        return len(self._server.server_state.connections)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()

    def serve(self, server: Server, model: str, drain_seconds: float = 0.0) -> Drain:
        """From now on requests go to ``server``; ``model``: what its model was asked for as. Returns how to stop in order."""
        if server.tokenizer is None:
            raise ValueError("an engine without a tokenizer cannot be asked over HTTP")
        server.measure()
        names = dict.fromkeys((short_name(model), server.publisher.hello.model.name))
        self.gate.served = Served(server, server.tokenizer, tuple(names), server.max_model_len)
        return Drain(self.gate, server, drain_seconds)

    def stop(self, seconds: float = 1.0) -> None:
        """Answers that have ended are sent to their end, for so long. Safe to repeat."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._server.force_exit = True
        with contextlib.suppress(OSError):
            self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._answer())
        except Exception as error:
            self._fault(f"HTTP has ended, and the engine goes on without: {one_line(error)}")
            self._socket.close()  # else clients are taken, and wait for ever

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: self._fault(f"HTTP: {_said(what)}"))
        await self._server.serve(sockets=[self._socket])


def within_files(limits: HttpLimits, files: int) -> HttpLimits:
    """With no more connections than a process that may have ``files`` files open has room for, though one at least."""
    return replace(limits, connections=max(1, min(limits.connections, files - SPARE_FILES)))


def _said(what: dict[str, Any]) -> str:
    error = what.get("exception")
    return f"{what['message']}: {one_line(error)}" if isinstance(error, BaseException) else str(what["message"])


def _listen(config: HttpConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(f"no HTTP at {config.host}:{config.port}: {error.strerror}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise OSError(f"no HTTP at {config.host}:{config.port}: {error.strerror}") from None
    return listening


def _files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
