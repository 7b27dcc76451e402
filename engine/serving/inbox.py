"""What other threads want of the engine, in the order in which they asked, for its own thread to carry out."""

import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from engine.serving.handle import RequestHandle


class Wish(NamedTuple):
    """``add``: queue the request of this handle; ``cancel``: end it."""

    kind: Literal["add", "cancel"]
    handle: RequestHandle


class EngineStopped(RuntimeError):
    """The engine serves no more; the text says why."""


class Inbox:
    """``wake`` is called after each wish, in the thread of whoever has it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._wishes: list[Wish] = []
        self._closed: str | None = None
        self._wake = wake

    @property
    def coming(self) -> int:
        """Requests not taken up yet, each with its samples as one. From any thread."""
        wishes = self._wishes  # the engine's thread puts another list there, and empties none
        return sum(wish.kind == "add" for wish in list(wishes))

    def add(self, handle: RequestHandle) -> None:
        """Queue the request of ``handle``. Raises `EngineStopped` after `close`."""
        with self._lock:
            if self._closed is not None:
                raise EngineStopped(self._closed)
            self._wishes.append(Wish("add", handle))
        self._wake()

    def cancel(self, handle: RequestHandle) -> None:
        """After `close` nothing happens: the request has ended."""
        with self._lock:
            if self._closed is None:
                self._wishes.append(Wish("cancel", handle))
        self._wake()

    def drain(self) -> list[Wish]:
        """All since the last call. Costs next to nothing where there is none."""
        if not self._wishes:
            return []
        with self._lock:
            wishes, self._wishes = self._wishes, []
        return wishes

    def close(self, why: str) -> list[Wish]:
        """Takes no more; ``why`` is what those who come are told. Returns what was left."""
        with self._lock:
            self._closed = why
            wishes, self._wishes = self._wishes, []
        return wishes
