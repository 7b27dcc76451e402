"""The engine as a process with HTTP: where it is told, and how it leaves."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.__main__ import main
from kvtop.protocol import Pause, Resume
from kvtop.sources.control import ControlClient
from tests.publish.kit import wait_until

LONG = {"prompt": "long", "max_tokens": 4000, "ignore_eos": True, "stream": True}


class Process:
    def __init__(self, folder: Path, *options: str) -> None:
        environment = os.environ | {"KVTOP_SOCKET_DIR": str(folder), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "engine", "--model", "random", "--name", "h", "--ready-json"]
        self.process = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        ready: dict[str, Any] = {}
        while "ready" not in ready:
            ready = json.loads(self.process.stdout.readline())
        self.url: str = ready["ready"]["http"]
        self.port = int(self.url.rpartition(":")[2])

    def ask(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        """The answer as soon as it begins."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        return connection.getresponse()

    def status(self) -> tuple[int, str]:
        answer = self.ask("GET", "/health")
        return answer.status, json.loads(answer.read())["status"]

    def tell(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


Start = Callable[..., Process]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    begun: list[Process] = []

    def start(*options: str) -> Process:
        begun.append(Process(folder, *options))
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def test_told_to_stop_it_answers_what_runs_and_takes_no_more(start: Start, folder: Path) -> None:
    it = start()
    assert it.status() == (200, "serving")
    stream = it.ask("POST", "/v1/completions", {**LONG, "max_tokens": 1500})
    first = stream.readline()
    control = ControlClient(folder / "h.ctl.sock")
    assert control.send(Pause(id="1")).ok  # it has not ended before we have looked
    it.tell()
    wait_until(lambda: it.status() == (503, "draining"), "draining")
    note = json.loads(it.process.stdout.readline())["note"]
    assert note.startswith("stopping: 1 request may take ")
    assert "the engine is paused, so nothing comes of them before kvtop ctl resume" in note
    refused = it.ask("POST", "/v1/completions", {"prompt": "x"})
    assert (refused.status, json.loads(refused.read())["error"]["code"]) == (503, "draining")
    assert refused.headers["Retry-After"]
    assert control.send(Resume(id="2")).ok
    rest = first + stream.read()
    assert rest.count(b'"finish_reason":"length"') == 1
    assert rest.endswith(b"data: [DONE]\n\n")
    assert it.process.wait(60) == 0


def test_told_again_it_stops_at_once_and_says_so_in_the_stream(start: Start, folder: Path) -> None:
    it = start()
    stream = it.ask("POST", "/v1/completions", LONG)
    stream.readline()
    assert ControlClient(folder / "h.ctl.sock").send(Pause(id="1")).ok
    it.tell()
    it.tell(signal.SIGINT)
    rest = stream.read()
    assert b'"code": "stopped"' in rest
    assert b'"finish_reason":"length"' not in rest
    assert it.process.wait(60) == 0


def test_a_drain_has_an_end(start: Start, folder: Path) -> None:
    it = start("--drain-seconds", "0.1")
    stream = it.ask("POST", "/v1/completions", LONG)
    stream.readline()
    assert ControlClient(folder / "h.ctl.sock").send(Pause(id="1")).ok
    it.tell()
    assert b'"code": "stopped"' in stream.read()
    assert it.process.wait(60) == 0


def test_it_does_not_drain_for_a_parent_that_has_gone(start: Start) -> None:
    it = start("--parent-stdin", "--drain-seconds", "1000000")
    stream = it.ask("POST", "/v1/completions", LONG)
    stream.readline()
    assert it.process.stdin is not None
    it.process.stdin.close()
    assert it.process.wait(60) == 0


def test_with_nothing_to_answer_it_stops_at_the_first_word_whoever_holds_connections(start: Start) -> None:
    it = start("--drain-seconds", "1000000")
    held = [socket.create_connection(("127.0.0.1", it.port)) for _ in range(20)]
    it.tell()
    assert it.process.wait(60) == 0
    for raw in held:
        raw.close()


def test_a_port_that_is_taken_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    monkeypatch.setitem(sys.modules, "engine.build", None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["--http", place, "--model", "random"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"no HTTP at {place}" in line
    assert "another port" in line


def test_an_engine_that_cannot_be_built_lets_go_of_its_port(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    assert main(["--http", place, "--model", str(folder / "none.gguf")]) != 0
    assert "none.gguf" in capsys.readouterr().err
    with socket.socket() as again:
        again.bind(("127.0.0.1", int(place.rpartition(":")[2])))


def test_without_its_packages_it_says_which_and_how(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    monkeypatch.delitem(sys.modules, "engine.http.listener", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["--http", "127.0.0.1:0", "--model", "random"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "uvicorn" in line
    assert "pip install" in line
