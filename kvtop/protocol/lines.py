"""Bytes as they arrive to lines, with a limit on how long one line may grow."""

from kvtop.protocol.base import ProtocolError


class LineTooLong(ProtocolError):
    """A line passed the limit. What is left of it is skipped; the lines after it are fine."""


class LineBuffer:
    """Cuts a stream into lines. Holds at most ``limit`` bytes of an unfinished line and what was fed last."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    @property
    def pending(self) -> bool:
        """Whether fed bytes are left that `next` has not looked at."""
        return self._at < len(self._data)

    @property
    def unfinished(self) -> int:
        """Bytes held of a line whose end has not come."""
        return self._size + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data
        self._at = 0

    def next(self) -> bytes | None:
        """The next whole line without its newline, None when more bytes are needed. Raises `LineTooLong`."""
        while self.pending:
            end = self._data.find(b"\n", self._at)
            piece = self._data[self._at : end if end >= 0 else None]
            self._at = end + 1 if end >= 0 else len(self._data)
            if self._skipping:
                self._skipping = end < 0
                continue
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > self.limit:
                self._parts, self._size, self._skipping = [], 0, end < 0
                raise LineTooLong(f"a line is longer than {self.limit} bytes")
            if end >= 0:
                line = b"".join(self._parts)
                self._parts, self._size = [], 0
                return line
        return None
