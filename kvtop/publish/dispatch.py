"""Commands on their way from the control socket to the engine's thread, and the answers on their way back."""

import threading
from collections import deque
from collections.abc import Callable, Iterable

from kvtop.protocol.commands import AnyCommand, Reply

MAX_MESSAGE = 1000

MAX_OPEN = 1024
"""Commands that may wait for an answer, of all askers together."""


class PendingCommand:
    """A command that waits for the engine's answer. ``uid`` and ``pid`` are the asker's, where the system tells."""

    def __init__(
        self, command: AnyCommand, uid: int | None, pid: int | None, answer: Callable[["PendingCommand", Reply], None]
    ) -> None:
        self.command = command
        self.uid = uid
        self.pid = pid
        self._answer = answer

    def reply(
        self,
        ok: bool,
        iteration: int | None = None,
        message: str = "",
        effects: Iterable[str] = (),
        file: str | None = None,
    ) -> None:
        """Answer once; RuntimeError the second time. An asker that is gone is no error. The message is cut to 1000."""
        said = message[:MAX_MESSAGE]
        self._answer(
            self, Reply(id=self.command.id, ok=ok, iteration=iteration, message=said, effects=list(effects), file=file)
        )


class CommandQueue:
    """Filled by the server thread, drained by the engine's; answers go the other way. Safe from both."""

    def __init__(self, attention: threading.Event, wake_server: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._attention = attention
        self._wake_server = wake_server
        self._new: deque[PendingCommand] = deque()
        self._open: dict[PendingCommand, object] = {}
        self._answers: deque[tuple[object, Reply]] = deque()
        self._closed: str | None = None

    def put(self, asker: object, command: AnyCommand, uid: int | None, pid: int | None) -> None:
        pending = PendingCommand(command, uid, pid, self._take_answer)
        with self._lock:
            refusal = self._closed
            if refusal is None and len(self._open) >= MAX_OPEN:
                refusal = f"{MAX_OPEN} commands are waiting for this engine already; try again later"
            if refusal is not None:
                self._answers.append((asker, Reply(id=command.id, ok=False, message=refusal)))
                return
            self._open[pending] = asker
            self._new.append(pending)
        self._attention.set()

    def drain(self) -> list[PendingCommand]:
        """All commands that came since the last call."""
        with self._lock:
            new = list(self._new)
            self._new.clear()
        return new

    def answers(self) -> list[tuple[object, Reply]]:
        """(asker, answer) pairs since the last call."""
        with self._lock:
            answers = list(self._answers)
            self._answers.clear()
        return answers

    def close(self, reason: str) -> None:
        """Refuse what is not answered yet, and all that still comes."""
        with self._lock:
            self._closed = reason[:MAX_MESSAGE]
            for pending, asker in self._open.items():
                self._answers.append((asker, Reply(id=pending.command.id, ok=False, message=self._closed)))
            self._open.clear()
            self._new.clear()

    def _take_answer(self, pending: PendingCommand, reply: Reply) -> None:
        with self._lock:
            asker = self._open.pop(pending, None)
            if asker is None:
                if self._closed is not None:
                    return  # refused in the engine's name when it stopped
                raise RuntimeError(f"command {pending.command.id!r} was answered twice")
            self._answers.append((asker, reply))
        self._wake_server()
