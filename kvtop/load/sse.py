"""Server-sent events out of bytes as they come: half lines, several events at once, any of the three line ends."""

MOST_BYTES = 4 * 1024 * 1024
"""Of one event, its line that is not complete yet included; more is not an event of any server of this API."""


class MalformedStream(ValueError):
    """What came is not a stream of events; the text says why, in a few words."""


class EventReader:
    """Feed it bytes; it returns the data of the events that are complete. ``event:``, ``id:`` and comments are passed over."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._held = 0
        self._begun = False
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Raises `MalformedStream` for data that are not UTF-8, and for an event above the limit."""
        if self._after_cr and piece:
            # The line that ended with CR is done; an LF right after it belongs to the same end.
            piece = piece[1:] if piece[:1] == b"\n" else piece
            self._after_cr = False
        searched = len(self._rest)
        self._rest += piece
        events: list[str] = []
        start = 0
        while (end := _line_end(self._rest, max(start, searched))) is not None:
            at, width = end
            self._line(bytes(self._rest[start:at]), events)
            start = at + width
            if width == 1 and self._rest[at] == 0x0D and start == len(self._rest):
                self._after_cr = True
        del self._rest[:start]
        if len(self._rest) + self._held > self._most:
            raise MalformedStream(f"an event of more than {self._most} bytes")
        return events

    def _line(self, line: bytes, events: list[str]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                try:
                    events.append(b"\n".join(self._data).decode())
                except UnicodeDecodeError:
                    raise MalformedStream("an event that is not UTF-8") from None
                finally:
                    self._data.clear()
                    self._held = 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._held += len(value) + 1
            if self._held > self._most:
                raise MalformedStream(f"an event of more than {self._most} bytes")


def _line_end(buffer: bytearray, start: int) -> tuple[int, int] | None:
    """Where the next line ends, and how many bytes its end has."""
    lf = buffer.find(b"\n", start)
    cr = buffer.find(b"\r", start, lf if lf >= 0 else len(buffer))
    if cr < 0:
        return None if lf < 0 else (lf, 1)
    return cr, 2 if cr + 1 == lf else 1
