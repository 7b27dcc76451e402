"""Reaching an engine's socket and hearing its hello, with a time limit and with reasons in plain words."""

import contextlib
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

from kvtop.protocol.base import MAX_FRAME_BYTES, ProtocolError, VersionError
from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import Fault
from kvtop.protocol.hello import Hello
from kvtop.protocol.lines import LineBuffer
from kvtop.protocol.reading import Reading, read_frame

READ_BYTES = 256 * 1024
QUEUE_FULL_SECONDS = 0.01


def plain(text: str) -> str:
    """Another program's words as one printable line: what could steer a terminal becomes ``?``."""
    return "".join(char if char.isprintable() else "?" for char in text)


class ConnectError(OSError):
    """The engine cannot be reached. ``final``: trying again without a change will not help."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(plain(reason))
        self.final = final


class ConnectTimeout(ConnectError):
    """The engine is there, but silent."""


def open_socket(path: Path, timeout: float) -> socket.socket:
    """A connected socket with that timeout. Raises `ConnectError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    deadline = time.monotonic() + timeout
    sock.settimeout(max(0.001, timeout))
    while True:
        try:
            sock.connect(str(path))
            return sock
        except BlockingIOError as error:
            # Many are connecting at this moment; Linux does not wait for a place in the queue.
            if time.monotonic() < deadline:
                time.sleep(QUEUE_FULL_SECONDS)
                continue
            failure: OSError = error
        except OSError as error:
            failure = error
        sock.close()
        raise ConnectError(_why(failure, path)) from None


def _why(error: OSError, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such socket: {path}"
    if isinstance(error, ConnectionRefusedError):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(path.stat().st_mode):
                return f"{path} is not a socket"
        return f"nobody is listening on {path}; its engine is gone"
    if isinstance(error, PermissionError):
        return f"permission denied on {path}; it belongs to another user"
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return f"{path} does not accept connections; its engine hangs or is stopped"
    return f"cannot connect to {path}: {error.strerror or error}"


def first_hello(line: bytes) -> tuple[Hello, Reading]:
    """The hello that an engine's first line must be, and how it was read. Raises `ConnectError`."""
    try:
        reading = read_frame(line)
    except VersionError as error:
        raise ConnectError(str(error), final=True) from None
    except ProtocolError as error:
        raise ConnectError(f"line 1: {error}; this is no kvtop engine") from None
    frame = reading.frame
    if isinstance(frame, Fault):
        raise ConnectError(f"the engine refused: {frame.message}", final=frame.code == "version")
    if not isinstance(frame, Hello):
        raise ConnectError("line 1: not a hello; this is no kvtop engine")
    return frame, reading


class Conversation:
    """A blocking connection with one deadline for all that is said in it: hello first, then line by line."""

    def __init__(self, path: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Connects and reads the hello. Raises `ConnectError`."""
        self._clock = clock
        self._deadline = clock() + seconds
        self._lines = LineBuffer(MAX_FRAME_BYTES)
        self._count = 0
        self._sock = open_socket(path, seconds)
        try:
            self.hello, _ = first_hello(self._line())
        except BaseException:
            self.close()
            raise

    def send(self, line: bytes) -> None:
        """Raises `ConnectError`."""
        try:
            self._limit_time()
            self._sock.sendall(line)
        except OSError as error:
            raise self._broken(error) from None

    def read(self) -> AnyFrame | None:
        """The next line; None for a type this version does not know. Raises `ConnectError`."""
        line = self._line()
        try:
            return read_frame(line).frame
        except ProtocolError as error:
            raise ConnectError(f"line {self._count}: {error}") from None

    def close(self) -> None:
        self._sock.close()

    def _line(self) -> bytes:
        try:
            while (line := self._lines.next()) is None:
                self._limit_time()
                data = self._sock.recv(READ_BYTES)
                if not data:
                    raise ConnectError("the engine closed the connection")
                self._lines.feed(data)
        except ProtocolError as error:
            raise ConnectError(f"line {self._count + 1}: {error}") from None
        except ConnectError:
            raise
        except OSError as error:
            raise self._broken(error) from None
        self._count += 1
        return line

    def _limit_time(self) -> None:
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def _broken(self, error: OSError) -> ConnectError:
        if isinstance(error, TimeoutError):
            return ConnectTimeout("the engine did not answer in time")
        return ConnectError("the engine closed the connection")
