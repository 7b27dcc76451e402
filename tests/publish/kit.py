"""What the tests of the publisher share: an engine of a few lines, and a peer that speaks plain lines."""

import contextlib
import fcntl
import json
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kvtop.protocol import (
    AnyFrame,
    EngineIdentity,
    Event,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    Status,
    decode_frame,
)
from kvtop.publish import Publisher

PATIENCE = 20.0
"""Seconds after which a test gives up; never a measure of speed."""


def hello(name: str = "toy", run: str = "run-1", pid: int | None = 4242) -> Hello:
    return Hello(
        engine=EngineIdentity(name=name, kind="fake", version="0", run=run, pid=pid), model=ModelFacts(name="none")
    )


def event(number: int) -> Event:
    return Event(id=number, kind="notice", iteration=number, wall=0.0)


def frame(seq: int, *events: Event, **fields: Any) -> IterationFrame:
    return IterationFrame(seq=seq, iteration=seq, wall=0.0, mono=float(seq), events=list(events), **fields)


def keyframe(seq: int, **fields: Any) -> Keyframe:
    return Keyframe(seq=seq, iteration=seq, wall=0.0, mono=float(seq), status=Status(state="running"), **fields)


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.002)


class FakeEngine(threading.Thread):
    """Answers commands and makes keyframes, as an engine with nothing to do does."""

    def __init__(self, publisher: Publisher) -> None:
        super().__init__(daemon=True)
        self.publisher = publisher
        self.seq = 0
        self.going = True
        self.todo = 0
        self.asked: list[tuple[int | None, int | None]] = []

    def run(self) -> None:
        while self.going:
            for pending in self.publisher.commands():
                self.asked.append((pending.uid, pending.pid))
                pending.reply(True, iteration=self.seq + 1, message=pending.command.id)
            if self.publisher.keyframe_due():
                self.publisher.publish_keyframe(keyframe(self.seq))
            if self.todo:
                self.todo -= 1
                self.seq += 1
                self.publisher.publish(frame(self.seq, event(self.seq)))
            else:
                self.publisher.wait(0.05)

    def work(self, iterations: int) -> None:
        """That many iterations more; returns when they are done."""
        self.todo += iterations
        wait_until(lambda: self.todo == 0, "the engine to finish its iterations")


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[FakeEngine]:
    publisher = Publisher(hello(**options.pop("identity", {})), folder, **options)
    publisher.start()
    engine = FakeEngine(publisher)
    engine.start()
    try:
        yield engine
    finally:
        engine.going = False
        engine.join(PATIENCE)
        publisher.stop("test over")


class Peer:
    """A raw connection. Lines are read only when asked for."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(path))  # blocking: with a time limit, a full backlog would be an error at once
        self.sock.settimeout(PATIENCE)
        self._file = self.sock.makefile("rb")

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.sock.close()

    def send(self, *objects: object) -> None:
        self.raw(b"".join(json.dumps(one).encode() + b"\n" for one in objects))

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def line(self) -> bytes:
        return self._file.readline()

    def read(self) -> AnyFrame:
        line = self.line()
        assert line.endswith(b"\n"), f"connection ended: {line[:100]!r}"
        message = decode_frame(line)
        assert message is not None
        return message

    def until(self, condition: Callable[[AnyFrame], object]) -> list[AnyFrame]:
        """All messages up to the first that meets the condition."""
        messages = [self.read()]
        while not condition(messages[-1]):
            messages.append(self.read())
        return messages

    def of(self, kind: type) -> Any:
        """The next message of that type; others are passed over."""
        return self.until(lambda message: isinstance(message, kind))[-1]

    def waiting_bytes(self) -> int:
        """Bytes that lie in the socket, unread."""
        return struct.unpack("i", fcntl.ioctl(self.sock, termios.FIONREAD, b"\0" * 4))[0]

    def ended(self) -> bool:
        """Reads to the end of the connection."""
        try:
            while self.line():
                pass
        except ConnectionResetError:
            pass
        return True
