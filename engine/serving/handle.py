"""What whoever submits a request gets: its outputs, and a way to end it."""

from collections.abc import Callable, Iterator

from engine.requests.request import Request
from engine.requests.stream import Output, OutputStream, joined


class RequestHandle:
    """Iterating waits for outputs and ends when all are complete. Safe from any thread but the engine's own, which would
    wait for itself.

    ``request`` belongs to the engine's thread: of it only ``num``, ``id`` and what never changes may be read by others.
    """

    def __init__(self, request: Request, stream: OutputStream, cancel: Callable[["RequestHandle"], None]) -> None:
        self.request = request
        self.stream = stream
        self._cancel = cancel

    @property
    def num(self) -> int:
        return self.request.num

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def ended(self) -> bool:
        """Nothing more comes; what came may still be unread."""
        return self.stream.ended

    def cancel(self) -> None:
        """End it, with all its samples: reason abort. Returns at once; nothing happens where it has ended."""
        self._cancel(self)

    def get(self, timeout: float | None = None) -> Output | None:
        """As `engine.requests.stream.OutputStream.get`."""
        return self.stream.get(timeout)

    def __iter__(self) -> Iterator[Output]:
        return iter(self.stream)

    def result(self, timeout: float | None = None) -> list[Output]:
        """Waits for all outputs and returns each in one piece, by index. Raises TimeoutError where ``timeout`` seconds
        bring nothing new; what was read until then is lost."""
        pieces: dict[int, list[Output]] = {}
        while (new := self.get(timeout)) is not None:
            pieces.setdefault(new.index, []).append(new)
        return [joined(pieces[index]) for index in sorted(pieces)]
