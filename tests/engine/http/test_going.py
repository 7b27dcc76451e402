"""Clients that go, that read slowly, and that wait too long: the engine goes on, and what they held is free."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.http.settings import HttpLimits
from engine.requests.request import Request
from engine.serving.handle import RequestHandle
from engine.workload.arrivals import Arrival
from kvtop.protocol import Abort
from kvtop.sources.control import ControlClient
from tests.engine.http.kit import PATIENCE, Serving

PATH, CHATS = "/v1/completions", "/v1/chat/completions"
LONG = {"prompt": "long", "max_tokens": 2000, "ignore_eos": True}


@pytest.mark.parametrize("stream", [True, False])
def test_the_blocks_of_a_client_that_goes_are_free_within_an_iteration(
    own: Serving, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Counted from when the engine has been told, which is when its connection ends."""
    scheduler, control, inbox = own.engine.scheduler, own.server.control, own.server._inbox
    told, freed = [], []
    cancel, abort = inbox.cancel, control.abort

    def cancelling(handle: RequestHandle) -> None:
        cancel(handle)
        told.append(own.engine.iteration)

    def aborting(request: Request, why: str) -> None:
        abort(request, why)
        freed.append((own.engine.iteration, scheduler.pool.available))

    monkeypatch.setattr(inbox, "cancel", cancelling)
    monkeypatch.setattr(control, "abort", aborting)
    raw = own.open(PATH, {**LONG, "stream": stream, "n": 3})
    own.until(lambda: len(scheduler.running) == 3)
    assert not told
    raw.close()
    own.until(lambda: told and len(freed) == 3)
    iteration, available = freed[-1]
    # The iteration that runs when it is told is ended; before the next one all is free.
    assert iteration - told[0] <= 1
    assert available == scheduler.pool.total
    assert scheduler.ledger_violations() == []


def test_two_hundred_clients_that_vanish_mid_stream_leave_nothing(serving: Serving) -> None:
    one_stays = serving.events(PATH, {"prompt": "stays", "max_tokens": 120, "ignore_eos": True})
    next(one_stays)
    raws = [
        serving.open(
            CHATS if number % 2 else PATH,
            {
                "prompt": f"vanishing {number}",
                "messages": [{"role": "user", "content": f"vanishing {number}"}],
                "max_tokens": 1000,
                "ignore_eos": True,
                "stream": number % 3 > 0,
                "n": 2 if number % 20 == 0 else 1,
            },
        )
        for number in range(200)
    ]
    serving.until(lambda: serving.http.gate.active == 201)
    for number, raw in enumerate(raws):
        if number % 5 == 0:  # a connection that is reset, not closed
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
    *chunks, done = one_stays
    assert done == "[DONE]"
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    serving.until(lambda: serving.idle and serving.http.gate.active == 0)
    assert serving.engine.scheduler.ledger_violations() == []
    assert len(serving.server._outlets) == 0
    serving.until(lambda: not serving.http.connections)


def deaf_client(it: Serving) -> socket.socket:
    """It and the operating system take as little as they can of what it does not read."""
    it.http._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections get it from there
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    raw.connect(("127.0.0.1", it.port))
    return raw


def test_a_client_that_does_not_read_holds_up_nobody(own: Serving) -> None:
    deaf = deaf_client(own)
    own.send(deaf, PATH, {**LONG, "max_tokens": 150, "stream": True, "n": 8})
    live = own.engine.scheduler.requests
    own.until(lambda: len(live) == 8)
    status, answer, _ = own.ask(PATH, {"prompt": "quick", "max_tokens": 20, "ignore_eos": True})
    assert (status, answer["usage"]["completion_tokens"]) == (200, 20)
    own.until(lambda: not live)  # the engine is through with it, though nothing was read
    (connection,) = own.http._server.server_state.connections
    assert connection.flow.write_paused
    deaf.settimeout(PATIENCE)
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += deaf.recv(65536)
    assert data.count(b'"finish_reason":"length"') == 8
    assert data.count(b"data: {") < 8 * 150, "what waited was joined"
    assert b"data: [DONE]" in data
    deaf.close()


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(write_seconds=0.2), max_running=64)
    try:
        raw = deaf_client(it)
        it.send(raw, PATH, {**LONG, "stream": True, "n": 16})
        it.until(lambda: it.http.gate.active == 1)
        it.until(lambda: it.http.gate.active == 0 and not it.http.connections)
        raw.close()
        it.until(lambda: it.idle)
    finally:
        it.close()
    assert it.faults == []


def test_an_answer_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(request_seconds=0.2))
    try:
        status, answer, _ = it.ask(PATH, {**LONG, "max_tokens": 4000})
        assert (status, answer["error"]["code"]) == (504, "request_timeout")
        *_, error, done = it.events(PATH, {**LONG, "max_tokens": 4000})
        assert error["error"]["code"] == "request_timeout"
        assert done == "[DONE]"
        it.until(lambda: it.idle)
    finally:
        it.close()


def test_more_than_the_queue_takes_is_told_to_come_again(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(queue=3, requests=4), max_running=1)
    try:
        raws = [it.open(PATH, LONG)]
        it.until(lambda: len(it.engine.scheduler.running) == 1)
        raws += [it.open(PATH, LONG) for _ in range(3)]
        it.until(lambda: it.server.queued == 3)
        status, answer, headers = it.ask(PATH, {"prompt": "x"})
        assert (status, answer["error"]["type"]) == (429, "rate_limit_error")
        assert headers["retry-after"] == "1"
        raws.pop().close()
        it.until(lambda: it.server.queued == 2)
        status, answer, headers = it.ask(PATH, {"prompt": "x", "n": 2})
        assert (status, answer["error"]["code"]) == (429, "busy")
        status, answer, _ = it.ask(PATH, {"prompt": "x", "n": 4})
        assert (status, answer["error"]["param"]) == (400, "n"), "no waiting will help"
        for raw in raws:
            raw.close()
        it.until(lambda: it.idle)
    finally:
        it.close()


def test_a_prompt_may_be_limited_below_the_context(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(prompt_tokens=30))
    try:
        for size, status in ((30, 200), (31, 400)):
            assert it.ask(PATH, {"prompt": "x" * size, "max_tokens": 1})[0] == status
        turns = [{"role": "user", "content": "x" * 31}]
        for path, asked, param in ((PATH, {"prompt": [1] * 31}, "prompt"), (CHATS, {"messages": turns}, "messages")):
            status, answer, _ = it.ask(path, asked)
            assert (status, answer["error"]["param"]) == (400, param)
            assert answer["error"]["code"] == "context_length_exceeded"
            assert "30" in answer["error"]["message"]
    finally:
        it.close()


def test_an_operators_abort_ends_the_answer_with_what_there_was(own: Serving) -> None:
    heard: list[object] = []

    def listen() -> None:
        heard.extend(own.events(PATH, {**LONG, "request_id": "unwanted"}))

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    own.until(lambda: own.engine.scheduler.running)
    client = ControlClient(own.server.publisher.places[1])
    assert client.send(Abort(id="1", request="unwanted"), PATIENCE).ok
    listening.join(PATIENCE)
    assert heard[-1] == "[DONE]"
    assert heard[-2]["choices"][0]["finish_reason"] == "abort"  # type: ignore[index]


def test_many_prompts_of_which_the_engine_refuses_one_are_refused_as_one(
    own: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, submitted = own.server.submit, []

    def refusing(tokens: list[int], *given: Any, **named: Any) -> Any:
        if tokens == [ord("y")]:
            raise ValueError("token_ids: these are not to be")
        submitted.append(submit(tokens, *given, **named))
        return submitted[-1]

    monkeypatch.setattr(own.server, "submit", refusing)
    status, answer, _ = own.ask(PATH, {"prompt": ["x", "y"], "max_tokens": 3000, "ignore_eos": True})
    assert (status, answer["error"]["param"]) == (400, "prompt")
    assert len(submitted) == 1
    own.until(lambda: own.idle)
    assert submitted[0].result(PATIENCE)[0].finish_reason == "abort"


def test_viewers_are_told_that_it_is_about_to_stop_and_the_workload_feeds_no_more(own: Serving) -> None:
    raw = own.open(PATH, LONG)
    own.until(lambda: own.engine.scheduler.running)
    assert own.drain.begin()
    assert not own.drain.begin(), "only the first word begins it"
    own.until(lambda: any("about to stop" in (event.detail or "") for event in own.server.telemetry.log.recent()))
    assert not own.drain.over
    own.server._arrivals = iter([Arrival(0.0, "T", [1], 4, 0)])
    own.server._next = next(own.server._arrivals)
    before = own.engine.iteration
    own.until(lambda: own.engine.iteration > before + 3)
    assert len(own.engine.scheduler.requests) == 1
    raw.close()
    own.until(lambda: own.drain.over)
