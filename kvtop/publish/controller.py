"""A peer on the control socket."""

import socket
from collections.abc import Callable

from kvtop.protocol.base import PROTOCOL_VERSION, ProtocolError
from kvtop.protocol.codec import AnyInput, encode, parse_object
from kvtop.protocol.commands import Command, Reply, RequestKeyframe
from kvtop.protocol.frames import Bye
from kvtop.protocol.hello import ClientHello
from kvtop.publish.dispatch import MAX_MESSAGE, CommandQueue
from kvtop.publish.peer import Peer
from kvtop.publish.sockets import peer_of

MAX_WAITING = 16
"""Commands of one controller that wait for the engine; above it, the controller is not read from."""


MAX_ID = 64
"""Characters of a command's id, as the protocol has it."""


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

    def refuse(self, line: bytes, code: str, why: str) -> None:
        """A command that bears an id is answered with a refusal, which whoever sent it waits for."""
        command, kind = _id_and_type(line)
        if command is None:
            super().refuse(line, code, why)
            return
        said = f"this engine, of protocol {PROTOCOL_VERSION}, cannot take the command {kind[:64]!r}: {why}"
        self.answer(encode(Reply(id=command, ok=False, message=said[:MAX_MESSAGE])))

    def _use(self, line: bytes, take: Callable[[AnyInput], None]) -> None:
        super()._use(line, lambda message: self._whole(line, message, take))

    def _whole(self, line: bytes, message: AnyInput, take: Callable[[AnyInput], None]) -> None:
        """A command with a field that is not known here would be carried out as if that had not been said: it is refused."""
        strange = sorted(set(parse_object(line)[0]) - set(type(message).model_fields))
        if strange and isinstance(message, Command):
            self.refuse(line, "bad_line", f"it does not know the field {strange[0][:64]!r}")
        else:
            take(message)

    def reply(self, reply: Reply) -> None:
        self._waiting -= 1
        self.answer(encode(reply))

    def done(self) -> bool:
        """Whether it has nothing more to say and nothing to wait for."""
        return self._said_all and not (self._lines.pending or self._waiting or self.writing)

    def farewell(self, reason: str) -> None:
        self.leave([encode(Bye(reason=reason[:200]))])


def _id_and_type(line: bytes) -> tuple[str | None, str]:
    """What a reply to this line would be addressed to: None where it bears no usable id, or is no command."""
    try:
        raw, kind = parse_object(line)
    except ProtocolError:
        return None, ""
    found = raw.get("id")
    usable = isinstance(found, str) and 0 < len(found) <= MAX_ID and kind != "hello"
    return (found if usable else None), kind
