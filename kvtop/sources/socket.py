"""A live engine's observing socket as a source."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

from kvtop.protocol.base import MAX_FRAME_BYTES, ProtocolError, VersionError
from kvtop.protocol.codec import AnyFrame, encode
from kvtop.protocol.commands import RequestKeyframe
from kvtop.protocol.frames import Bye, Fault, Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import ClientHello
from kvtop.protocol.lines import LineBuffer, LineTooLong
from kvtop.protocol.reading import Reading, read_frame
from kvtop.record import Tape
from kvtop.sources.base import Item, LinkDown, LinkUp, Unusable
from kvtop.sources.connect import READ_BYTES, ConnectError, first_hello, open_socket
from kvtop.sources.continuity import Continuity
from kvtop.sources.history import Keeper
from kvtop.sources.inbox import Inbox

FIRST_RETRY = 0.25
LAST_RETRY = 2.0
CONNECT_SECONDS = 2.0
HELLO_SECONDS = 5.0
MAX_UNREAD = 1024
"""Bytes for an engine that does not read, above which it is told nothing more."""

STEADY_SECONDS = 10.0
"""A connection that has served for so long was a good one: after it, coming back is tried soon again."""

MAX_UNUSABLE = 100
"""Lines in a row that are of no use at all, after which a connection is given up: this is no engine's stream."""

ASK_AGAIN = 1.0
"""Seconds until a keyframe is asked for anew where the one that came was of no use; doubled each time, up to a minute."""


class SocketSource:
    """Reads in a daemon thread, comes back by itself after an outage, and never raises into the viewer.

    ``fps``: frames a second at most; the engine merges what is between. None: every frame. ``history``: keeps what comes.
    """

    def __init__(
        self, path: Path, fps: float | None = None, client: str = "kvtop", history: Keeper | None = None
    ) -> None:
        self.path = Path(path)
        self.title = str(path)
        self._client = client
        self._history = history
        self._hello = encode(ClientHello(client=client, fps=fps))
        self._pace_wanted = False
        self._inbox = Inbox()
        self._closing = threading.Event()
        self._keyframe_wanted = False
        self._down = False
        self._retry = FIRST_RETRY
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="kvtop-source", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> list[Item]:
        return self._inbox.drain()

    def pace(self, fps: float) -> None:
        # Also what the next connection begins with.
        self._hello = encode(ClientHello(client=self._client, fps=fps))
        self._pace_wanted = True
        self._ring()

    def tape(self) -> Tape | None:
        return None if self._history is None else self._history.tape()

    def request_keyframe(self) -> None:
        self._keyframe_wanted = True
        self._ring()

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._ring()
        if self._thread.is_alive():
            self._thread.join(CONNECT_SECONDS + 1)
        else:
            self._bell.close()
        self._inbox.drain()
        self._ringer.close()
        if self._history is not None:
            self._history.close()

    def _ring(self) -> None:
        # Full: the thread is about to wake. Closed: there is no thread left to wake.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                began = time.monotonic()
                try:
                    self._connection()
                except ConnectError as error:
                    if time.monotonic() - began >= STEADY_SECONDS:
                        self._retry = FIRST_RETRY
                    self._announce(str(error), retrying=not error.final)
                    if error.final:
                        return
                self._closing.wait(self._retry)
                self._retry = min(LAST_RETRY, 2 * self._retry)
        except Exception as error:
            self._announce(f"internal error, {type(error).__name__}: {error}", retrying=False)
        finally:
            self._bell.close()

    def _announce(self, reason: str, retrying: bool) -> None:
        if not self._closing.is_set() and not (self._down and retrying):
            self._down = True
            self._inbox.put(LinkDown(reason, retrying))

    def _connection(self) -> None:
        """From connect to the end of one connection. Raises `ConnectError` at the latter."""
        sock = open_socket(self.path, CONNECT_SECONDS)
        with sock, selectors.DefaultSelector() as selector:
            sock.setblocking(False)
            connection = _Connection(sock, self._hello, self._history)
            selector.register(sock, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            silent_until = time.monotonic() + HELLO_SECONDS
            while not self._closing.is_set():
                selector.modify(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0))
                now = time.monotonic()
                left = connection.ask_at - now if connection.greeted else silent_until - now
                if left <= 0 and not connection.greeted:
                    raise ConnectError(f"connected, but no hello within {HELLO_SECONDS:g} s; the engine hangs")
                for key, events in selector.select(None if left == inf else max(0.0, left)):
                    if key.fileobj is self._bell:
                        self._bell.recv(4096)
                    elif events & selectors.EVENT_READ:
                        self._read(connection)
                wanted = connection.continuity.wants_keyframe() or self._keyframe_wanted or connection.asks_again()
                if connection.greeted and wanted:
                    self._keyframe_wanted = False
                    connection.ask_keyframe()
                elif connection.greeted and self._history is not None and self._history.wants_keyframe():
                    connection.ask_keyframe(for_history=True)
                if self._pace_wanted and connection.greeted:
                    self._pace_wanted = False
                    connection.say(self._hello)
                connection.flush()

    def _read(self, connection: "_Connection") -> None:
        for item, size in connection.read():
            if isinstance(item, LinkUp):
                self._down = False
            if not self._inbox.put(item, size):
                connection.continuity.lost()


class _Connection:
    """One connection's lines, from its hello on."""

    def __init__(self, sock: socket.socket, hello: bytes, history: Keeper | None) -> None:
        self._sock = sock
        self._history = history
        self._awaits = self._spare = False
        """The viewer has asked for a keyframe; the next one was asked for by its history alone."""
        self._lines = LineBuffer(MAX_FRAME_BYTES)
        self._count = 0
        self._last_word: str | None = None
        self.continuity = Continuity()
        self.out = hello
        self.greeted = False
        self._unusable = 0
        self._read: tuple[bytes, AnyFrame | None] | None = None
        """A line and what it says, not kept yet."""
        self._patience = ASK_AGAIN
        self.ask_at = inf
        """When a keyframe is to be asked for anew."""

    def ask_keyframe(self, for_history: bool = False) -> None:
        self._awaits = self._awaits or not for_history
        self._spare = not self._awaits
        self.say(encode(RequestKeyframe()))

    def say(self, line: bytes) -> None:
        if len(self.out) < MAX_UNREAD:  # an engine that does not read has been told often enough
            self.out += line

    def asks_again(self) -> bool:
        """True once, when it is time to ask for a keyframe in place of one that was of no use."""
        due = time.monotonic() >= self.ask_at
        if due:
            self.ask_at = inf
        return due

    def flush(self) -> None:
        try:
            if self.out:
                self.out = self.out[self._sock.send(self.out) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.out = b""  # what the engine said before it left is still to be read; the end comes after it

    def read(self) -> Iterator[tuple[Item, int]]:
        """Items of the lines that came, each with its size. Raises `ConnectError` at the end and at an unusable line."""
        try:
            data = self._sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # reset: the engine left without reading all we said
        if not data:
            raise ConnectError(self._end())
        self._lines.feed(data)
        while self._lines.pending:
            try:
                line = self._lines.next()
            except LineTooLong as error:
                self._count += 1
                yield self._no_use(error), 0
                continue
            if line is None:
                return
            self._count += 1
            try:
                items = self._use(line)
            except ConnectError:
                self._keep()
                raise
            for item in items:
                yield item, len(line)
            self._keep()  # last: to compress a keyframe of a million blocks takes longer than to show it

    def _use(self, line: bytes) -> list[Item]:
        if not self.greeted:
            hello, reading = first_hello(line)
            self.greeted, self._read = True, (line, hello)
            return [LinkUp(), hello, *self._mended(reading)]
        try:
            reading = read_frame(line)
        except VersionError as error:
            raise ConnectError(str(error), final=True) from None
        except ProtocolError as error:
            return [self._no_use(error)]
        self._unusable = 0
        frame = reading.frame
        self._read = (line, frame)
        if frame is None:
            return []
        if isinstance(frame, (IterationFrame, Keyframe, Gap)):
            if isinstance(frame, Keyframe):
                self._patience, self.ask_at = ASK_AGAIN, inf
                spare, self._spare, self._awaits = self._spare, False, False
                if spare and self.continuity.position == frame.seq:
                    return []  # it tells the viewer nothing new
            return [*self.continuity.take(frame), *self._mended(reading)]
        if isinstance(frame, Bye):
            self._last_word = f"the engine left: {frame.reason}"
        elif isinstance(frame, Fault) and frame.fatal:
            raise ConnectError(f"the engine ended the connection: {frame.message}", final=frame.code == "version")
        return [frame, *self._mended(reading)]

    def _keep(self) -> None:
        """The line that was read, if it could be."""
        kept, self._read = self._read, None
        if self._history is not None and kept is not None:
            self._history.take(*kept)

    def _mended(self, reading: Reading) -> list[Item]:
        return [Unusable(reading.mended, f"line {self._count}: {reading.note}")] if reading.mended else []

    def _no_use(self, error: ProtocolError) -> Item:
        """The line is passed over. It may have been a keyframe, so one is asked for, and not at once again and again."""
        note = f"line {self._count}: {error}"
        self._unusable += 1
        if not self.greeted or self._unusable >= MAX_UNUSABLE:
            raise ConnectError(note)
        if self.ask_at == inf:
            self.ask_at = time.monotonic() + self._patience
            self._patience = min(60.0, 2 * self._patience)
        return Unusable(1, note)

    def _end(self) -> str:
        if self._last_word is not None:
            return self._last_word
        if unfinished := self._lines.unfinished:
            return (
                f"the engine closed the connection in the middle of line {self._count + 1} (after {unfinished} bytes)"
            )
        return "the engine closed the connection without a goodbye"
