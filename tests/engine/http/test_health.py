"""How the engine is, as those see it who decide whether to send it anything."""

import http.client
import socket
import time

import pytest

from engine.http.connection import Connection
from engine.http.listener import HttpServer
from engine.http.settings import HttpConfig
from engine.serving.watchdog import Alarm, Trouble
from tests.engine.http.kit import Serving


def status(serving: Serving) -> tuple[int, str]:
    code, answer, _ = serving.ask("/health", method="GET")
    return code, answer["status"]


def test_while_the_model_loads_it_is_starting() -> None:
    server = HttpServer(HttpConfig("127.0.0.1", 0), pytest.fail)
    server.start()
    asking = Serving.__new__(Serving)
    asking.http = server
    try:
        assert status(asking) == (503, "starting")
        code, answer, headers = asking.ask("/v1/completions", {"prompt": "x"})
        assert (code, answer["error"]["code"], headers["retry-after"]) == (503, "starting", "2")
        assert asking.ask("/v1/models", method="GET")[0] == 503
        assert asking.ask("/version", method="GET")[0] == 200
    finally:
        server.stop()


def test_it_serves(serving: Serving) -> None:
    assert status(serving) == (200, "serving")


def test_the_watchdogs_alarm_makes_it_stuck(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    grave = Alarm(Trouble.NO_TOKENS, "error", "iterations go on but nobody gets a token", 0.0)
    held_up = Alarm(Trouble.HEAD_REFUSED, "warn", "the head of the queue is refused", 0.0)
    paused = Alarm(Trouble.PAUSED, "warn", "paused with work", 0.0)
    for alarm, code in ((grave, 503), (held_up, 200), (paused, 503)):
        monkeypatch.setattr(type(serving.server._watchdog), "look", lambda *_: [])
        monkeypatch.setattr(serving.server._watchdog, "alarm", alarm)
        serving.until(lambda code=code: serving.ask("/health", method="GET")[0] == code)
        answer = serving.ask("/health", method="GET")[1]
        assert answer == ({"status": "stuck", "detail": alarm.text} if code == 503 else {"status": "serving"})
    monkeypatch.setattr(serving.server._watchdog, "alarm", None)
    serving.until(lambda: status(serving) == (200, "serving"))


def test_an_iteration_that_does_not_end_makes_it_stuck(own: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog cannot tell: it looks once an iteration."""
    run, holds = own.engine.runner.run, [True]

    def hanging(*given: object) -> object:
        while holds[0]:
            time.sleep(0.001)
        return run(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(own.engine.runner, "run", hanging)
    raw = own.open("/v1/completions", {"prompt": "x", "max_tokens": 1})
    own.until(lambda: own.engine.scheduler.running)
    clock = own.engine.clock
    monkeypatch.setattr(own.engine, "clock", lambda: clock() + 100.0)
    code, answer, _ = own.ask("/health", method="GET")
    assert (code, answer["status"]) == (503, "stuck")
    assert "an iteration has taken 1" in answer["detail"]
    monkeypatch.setattr(own.engine, "clock", clock)
    holds[0] = False
    own.until(lambda: status(own) == (200, "serving"))
    raw.close()


def test_what_goes_wrong_beside_requests_is_a_line_each(own: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_connection: Connection, _data: bytes) -> None:
        raise RuntimeError("not to be")

    monkeypatch.setattr(Connection, "data_received", failing)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        own.ask("/health", method="GET")
    own.until(lambda: own.faults)
    assert own.faults[0].startswith("HTTP: ")
    assert "RuntimeError: not to be" in own.faults[0]
    assert len(own.faults[0].splitlines()) == 1
    monkeypatch.undo()
    assert own.ask("/health", method="GET")[0] == 200


def test_a_server_that_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ending(*_: object, **__: object) -> None:
        raise OSError("no more")

    said: list[str] = []
    server = HttpServer(HttpConfig("127.0.0.1", 0), said.append)
    monkeypatch.setattr(server._server, "serve", ending)
    server.start()
    server._thread.join(60)
    with pytest.raises(ConnectionRefusedError):  # nobody is left waiting for an answer
        socket.create_connection(("127.0.0.1", server.port), 60)
    server.stop()
    assert said == ["HTTP has ended, and the engine goes on without: OSError: no more"]
