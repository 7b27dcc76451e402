"""A peer on the control socket."""

import socket
from collections.abc import Callable

from kvtop.protocol.codec import AnyInput, encode
from kvtop.protocol.commands import Command, Reply, RequestKeyframe
from kvtop.protocol.frames import Bye
from kvtop.protocol.hello import ClientHello
from kvtop.publish.dispatch import CommandQueue
from kvtop.publish.peer import Peer
from kvtop.publish.sockets import peer_of

MAX_WAITING = 16
"""Commands of one controller that wait for the engine; above it, the controller is not read from."""


class Controller(Peer):
    """Each of its commands goes to the engine with the uid and pid the kernel gives, and gets one reply."""

    who = "the controller"

    def __init__(
        self,
        sock: socket.socket,
        hello: bytes,
        queue: CommandQueue,
        keyframe_for_all: Callable[[], None],
    ) -> None:
        super().__init__(sock, hello)
        self._queue = queue
        self._keyframe_for_all = keyframe_for_all
        self._uid, self._pid = peer_of(sock)
        self._waiting = 0

    @property
    def full(self) -> bool:
        return super().full or self._waiting >= MAX_WAITING

    def take(self, message: AnyInput) -> None:
        if isinstance(message, ClientHello):
            return
        assert isinstance(message, Command)
        if isinstance(message, RequestKeyframe):
            self._keyframe_for_all()  # the viewers wait for it; the engine answers and logs, as for any command
        self._waiting += 1
        self._queue.put(self, message, self._uid, self._pid)

    def reply(self, reply: Reply) -> None:
        self._waiting -= 1
        self.answer(encode(reply))

    def done(self) -> bool:
        """Whether it has nothing more to say and nothing to wait for."""
        return self._said_all and not (self._lines.pending or self._waiting or self.writing)

    def farewell(self, reason: str) -> None:
        self.leave([encode(Bye(reason=reason[:200]))])
