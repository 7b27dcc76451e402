"""Commands from the screen: each is sent from a thread of its own, so that the screen never waits for an engine."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kvtop.protocol import Command, Reply
from kvtop.views.answer import Answer

TIMEOUT_S = 15.0
"""Commands take effect between two iterations; a long prefill on a CPU lasts seconds."""


class Client(Protocol):
    """What sends one command and waits for its reply (`kvtop.sources.control.ControlClient`)."""

    def send(self, command: Command, timeout: float) -> Reply: ...


def control_client(path: Path) -> Client:
    from kvtop.sources.control import ControlClient

    return ControlClient(path)


class Commander:
    """Sends commands to one engine's control socket, or says in a sentence why it cannot.

    ``path``: the socket; None where there is none, ``why`` then. ``connect``: makes the client that sends.
    """

    def __init__(
        self,
        path: Path | None,
        connect: Callable[[Path], Client] = control_client,
        why: str = "this source has no control socket",
    ) -> None:
        self._path, self._connect, self._why = path, connect, why

    def read_only(self) -> str | None:
        """Why nothing can be commanded; None when it can, as far as file permissions tell."""
        if self._path is None:
            return f"read-only: {self._why}"
        if not self._path.exists():
            return f"read-only: no {self._path.name} beside the observing socket"
        if not os.access(self._path, os.W_OK):
            return f"read-only: no permission for {self._path}"
        return None

    def ask(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Sends ``command``; ``done`` gets the answer, mostly in another thread."""
        reason = self.read_only()
        if reason is not None:
            done(Answer(False, reason))
            return
        assert self._path is not None
        client = self._connect(self._path)
        # A daemon thread: an engine that never answers must not keep the screen from ending.
        threading.Thread(target=self._send, args=(client, command, done), name="kvtop-command", daemon=True).start()

    def _send(self, client: Client, command: Command, done: Callable[[Answer], None]) -> None:
        from kvtop.sources.control import ControlError

        try:
            answer = Answer.of(client.send(command, TIMEOUT_S))
        except (ControlError, OSError) as error:
            answer = Answer(False, str(error))
        done(answer)
