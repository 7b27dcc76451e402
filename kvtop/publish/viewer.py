"""A peer on the observing socket."""

import socket

from kvtop.protocol.codec import AnyInput, encode
from kvtop.protocol.commands import RequestKeyframe
from kvtop.protocol.frames import Bye
from kvtop.protocol.hello import ClientHello
from kvtop.publish.cursor import Cursor
from kvtop.publish.peer import Peer


class Viewer(Peer):
    """Gets new lines only when all earlier ones are written, so that one that stalls costs a few lines of memory."""

    who = "the viewer"

    def __init__(self, sock: socket.socket, hello: bytes, cursor: Cursor) -> None:
        super().__init__(sock, hello)
        self.cursor = cursor

    def take(self, message: AnyInput) -> None:
        if isinstance(message, ClientHello):
            self.cursor.fps = message.fps
        elif isinstance(message, RequestKeyframe):
            self.cursor.ask_keyframe()
        else:
            self.fault("not_here", f"{message.type!r} is a command: send it to the control socket")

    def serve(self, now: float, last: int | None) -> None:
        """Write what is left, then the frames up to ``last`` if they are due. Raises `PeerGone`."""
        if self.flush() and now >= self.cursor.due_at():
            self.send(*self.cursor.take(now, last))
            self.flush()
        if self.writing:
            self.cursor.lagging = True

    def due_at(self) -> float | None:
        """When its next turn is; None when it waits for its socket or for news from the engine."""
        return None if self.writing or not self.cursor.has_news() else self.cursor.due_at()

    def farewell(self, reason: str) -> None:
        self.leave([*self.cursor.rest(), encode(Bye(reason=reason[:200]))])
