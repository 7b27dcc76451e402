"""Wakes the server thread, and only when it asked to be woken."""

import contextlib
import socket


class Waker:
    """The server thread sleeps on `reader`; any thread may call `wake` or `news`.

    `news` is for the engine's thread. It costs a system call only when the server sleeps until there is news
    (`armed`), so at most one for each of its turns, and none at all when nobody watches.
    """

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self.armed = False

    def news(self) -> None:
        if self.armed:
            self.armed = False
            self.wake()

    def wake(self) -> None:
        # A full pipe means that a wake is on its way already; a closed one, that there is nobody to wake.
        with contextlib.suppress(OSError):
            self._writer.send(b"\0")

    def drain(self) -> None:
        with contextlib.suppress(OSError):
            while self.reader.recv(4096):
                pass

    def close(self) -> None:
        self.reader.close()
        self._writer.close()
