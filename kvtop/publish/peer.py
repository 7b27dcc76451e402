"""One connection of the engine: what every peer may do, however it behaves, and how much memory it may cost."""

import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from selectors import EVENT_READ

from kvtop.protocol.base import MAX_COMMAND_BYTES, ProtocolError
from kvtop.protocol.codec import AnyInput, check_version, decode_input, encode
from kvtop.protocol.frames import Fault
from kvtop.protocol.hello import ClientHello
from kvtop.protocol.lines import LineBuffer, LineTooLong
from kvtop.publish.sockets import hung_up

READ_BYTES = 65536
READ_EVERY = 0.01
"""Seconds between two reads from one peer: whoever pours data in does not keep the engine's interpreter busy."""

LINES_PER_TURN = 32
WRITE_LINES = 64
MAX_UNSENT = 16
"""Answers waiting to be written, above which a peer is not read from until it reads."""

MAX_FAULTS = 100
"""Unusable lines after which a peer is sent away."""

LOOK_EVERY = 1.0
"""Seconds between looks at a peer that has nothing more to say, to see whether it still listens."""


class PeerGone(Exception):
    """The connection is over; there is nobody to tell."""


class Peer:
    """A connected socket, its unread input and its unsent output. Used by the server thread alone."""

    who = "the peer"

    def __init__(self, sock: socket.socket, hello: bytes) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.mask = 0
        self._lines = LineBuffer(MAX_COMMAND_BYTES)
        self._out: deque[memoryview] = deque()
        self._unsent = 0
        self._faults = 0
        self._line_number = 0
        self._read_at = 0.0
        self._work_at = 0.0
        self._said_all = False
        self._leaving = False
        self.send(hello)

    # -- output

    @property
    def writing(self) -> bool:
        return bool(self._out)

    def send(self, *lines: bytes) -> None:
        self._out.extend(memoryview(line) for line in lines)

    def flush(self) -> bool:
        """Write what the socket takes; False when it took less than there was. Raises `PeerGone`."""
        while self._out:
            try:
                sent = self.sock.sendmsg(list(islice(self._out, WRITE_LINES)))
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:
                raise PeerGone from None
            while sent:
                head = self._out.popleft()
                if sent < len(head):
                    self._out.appendleft(head[sent:])
                    break
                sent -= len(head)
        self._unsent = 0
        if self._leaving:
            raise PeerGone
        return True

    def answer(self, line: bytes) -> None:
        """Queue an answer to something the peer sent; it counts against `MAX_UNSENT`."""
        self._unsent += 1
        self.send(line)

    def fault(self, code: str, message: str, fatal: bool = False) -> None:
        """Tell the peer that its input is of no use. After a fatal fault the connection ends."""
        self._faults += 1
        if self._faults >= MAX_FAULTS and not fatal:
            message, fatal = f"{message}; that was unusable line number {self._faults}, goodbye", True
        self.answer(encode(Fault(code=code, message=message[:1000], fatal=fatal)))
        self._leaving = self._leaving or fatal

    def refuse(self, line: bytes, code: str, why: str) -> None:
        """The peer's ``line`` is of no use, and this is why."""
        self.fault(code, f"line {self._line_number}: {why}")

    # -- input

    @property
    def full(self) -> bool:
        """Whether the peer has to read its answers, or wait for them, before more of it is read."""
        return self._unsent >= MAX_UNSENT

    def wants_read(self, now: float) -> bool:
        return not (self._said_all or self._leaving or self.full or self._lines.pending or now < self._read_at)

    def next_at(self, now: float) -> float | None:
        """When this peer has to be looked at again without being woken by its socket; None for never."""
        if self._leaving or self.full:
            return None
        if self._lines.pending:
            return self._work_at
        if self._said_all:
            return now + LOOK_EVERY
        # Whether its socket is watched was decided some time ago, and the time to read may have come since.
        return None if self.mask & EVENT_READ else self._read_at

    def receive(self, now: float) -> None:
        """Read once. Raises `PeerGone` when the connection is over in both directions."""
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            raise PeerGone from None
        self._read_at = now + READ_EVERY
        if data:
            self._lines.feed(data)
        else:
            self._said_all = True

    def work(self, now: float, take: Callable[[AnyInput], None]) -> None:
        """Hand out the messages that have come, as many as this turn allows. Raises `PeerGone`."""
        if now < self._work_at:
            return
        for _ in range(LINES_PER_TURN):
            if self._leaving or self.full:
                break
            line = None
            try:
                line = self._lines.next()
                if line is None:
                    break
                self._line_number += 1
                if line.strip():
                    self._use(line, take)
            except LineTooLong as error:
                self._line_number += 1
                self.fault("line_too_long", f"line {self._line_number}: {error}")
            except ProtocolError as error:
                self.refuse(line or b"", "bad_line", str(error))
        if self._lines.pending:
            self._work_at = now + READ_EVERY
        elif self._said_all:
            self._end_of_input()

    def _end_of_input(self) -> None:
        if unfinished := self._lines.unfinished:
            self._lines = LineBuffer(MAX_COMMAND_BYTES)
            self.fault("bad_line", f"line {self._line_number + 1}: ended after {unfinished} bytes without a newline")
        elif hung_up(self.sock):
            raise PeerGone

    def _use(self, line: bytes, take: Callable[[AnyInput], None]) -> None:
        message = decode_input(line)
        if message is None:
            self.refuse(line, "unknown_type", "this engine does not know its type")
            return
        if isinstance(message, ClientHello):
            try:
                check_version(message.protocol, self.who)
            except ProtocolError as error:
                self.fault("version", f"line {self._line_number}: {error}", fatal=True)
                return
        take(message)

    # -- the end

    def leave(self, lines: Iterable[bytes]) -> None:
        """Last lines; the connection ends once they are written."""
        self.send(*lines)
        self._leaving = True

    def close(self) -> None:
        self.sock.close()
