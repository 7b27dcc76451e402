"""An engine on random weights behind a real HTTP server, in threads of this process, where a test can look into it."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.build import build
from engine.config import EngineConfig
from engine.core import Engine
from engine.http.listener import HttpServer
from engine.http.settings import HttpConfig, HttpLimits

PATIENCE = 60.0
"""Seconds until a test that waits gives up."""


class Serving:
    """From the beginning to `close`; ``faults``: what should not have happened."""

    def __init__(
        self,
        folder: Path,
        limits: HttpLimits | None = None,
        *,
        token: str = "",
        model: str = "random",
        metrics_names: str = "kvtop",
        blocks: int = 256,
        **policies: Any,
    ) -> None:
        config = EngineConfig(model=model, name="h", block_size=16, blocks=blocks, device="cpu", policies=policies)
        self.faults: list[str] = []
        settings = HttpConfig("127.0.0.1", 0, token, limits or HttpLimits(), metrics_names)
        self.http = HttpServer(settings, self.faults.append)
        self.http.start()
        self.server = build(config, lambda *_: None, lambda _: None, folder=folder)
        self.server.publisher.start()
        self.drain = self.http.serve(self.server, model, drain_seconds=60.0)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()

    @property
    def engine(self) -> Engine:
        return self.server.engine

    @property
    def port(self) -> int:
        return self.http.port

    def close(self) -> None:
        self.server.stop()
        self._thread.join(PATIENCE)
        self.server.publisher.stop()
        self.server.close()
        self.http.stop()

    def ask(
        self, path: str, body: Any = None, *, method: str = "POST", headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON, headers. ``body``: bytes as they are, anything else as JSON."""
        status, text, told = self.ask_raw(path, body, method=method, headers=headers)
        return status, json.loads(text) if text else None, told

    def ask_raw(
        self, path: str, body: Any = None, *, method: str = "POST", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """The same with the answer's bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Any]:
        """What a stream says: JSON, and at the end the word [DONE]."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", path, json.dumps({"stream": True, **body}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: "):
                said = line[len(b"data: ") :].strip()
                yield said.decode() if said == b"[DONE]" else json.loads(said)
        connection.close()

    def open(self, path: str, body: dict[str, Any]) -> socket.socket:
        """A request that was sent, its answer not read."""
        raw = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.send(raw, path, body)
        return raw

    def send(self, raw: socket.socket, path: str, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)

    @property
    def idle(self) -> bool:
        """Nothing runs, nothing waits, and every block can be had."""
        scheduler = self.engine.scheduler
        return not scheduler.requests and not self.server.queued and scheduler.pool.available == scheduler.pool.total
