"""An engine of which a test decides every byte."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from kvtop.protocol import Message, encode
from kvtop.sources.base import Item, LinkDown
from kvtop.sources.socket import SocketSource
from tests.publish.kit import PATIENCE, wait_until


class Scripted:
    """Listens, and runs the next script for each connection; a script gets the accepted socket and may return at once."""

    def __init__(self, path: Path, *scripts: Callable[["Line"], None]) -> None:
        self.path = path
        self._scripts = list(scripts)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for script in self._scripts:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE)
            with sock, contextlib.suppress(OSError):  # the other side left; its test looks at what it got
                script(Line(sock))

    def close(self) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)


class Line:
    """The engine's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._file = sock.makefile("rb")

    def say(self, *messages: Message) -> None:
        self.sock.sendall(b"".join(encode(message) for message in messages))

    def hear(self) -> bytes:
        return self._file.readline()

    def until_closed(self) -> None:
        while self.hear():
            pass


class Collected:
    """What a source has given so far."""

    def __init__(self, source: SocketSource) -> None:
        self.source = source
        self.items: list[Item] = []

    def until(self, condition: Callable[[list[Item]], object]) -> list[Item]:
        def met() -> object:
            self.items += self.source.poll()
            return self.items and condition(self.items)

        wait_until(met, f"items, so far {[type(item).__name__ for item in self.items]}")
        return self.items

    def down(self, count: int = 1) -> LinkDown:
        items = self.until(lambda items: sum(isinstance(item, LinkDown) for item in items) >= count)
        return [item for item in items if isinstance(item, LinkDown)][count - 1]
