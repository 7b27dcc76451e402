"""Merged lines, made once for all viewers that want the same frames in one."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from kvtop.protocol.codec import encode
from kvtop.protocol.frames import IterationFrame
from kvtop.protocol.merge import merge_frames
from kvtop.publish.ring import Entry

MAX_ITEMS = 100_000
"""Block runs, hashes, requests and events in one merged frame; it bounds the time one merge takes."""

KEPT = 4
"""Merged lines kept. Viewers of one rate are served at the same moments, so that a few suffice."""


def _items(frame: IterationFrame) -> int:
    return len(frame.blocks) + len(frame.hashes) + len(frame.requests) + len(frame.events) + len(frame.traffic)


def _portions(entries: Sequence[Entry]) -> list[list[Entry]]:
    portions: list[list[Entry]] = []
    items = 0
    for entry in entries:
        more = _items(entry.frame)
        if not portions or items + more > MAX_ITEMS:
            portions.append([])
            items = 0
        portions[-1].append(entry)
        items += more
    return portions


class MergedLines:
    """Safe from any thread; almost always it is the server's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def of(self, entries: Sequence[Entry]) -> list[tuple[bytes, Sequence[Entry]]]:
        """The entries as one line, with those that are in it; as several where one would be too much work at once."""
        with self._lock:
            return [(self._line(portion), portion) for portion in _portions(entries)]

    def _line(self, entries: Sequence[Entry]) -> bytes:
        if len(entries) == 1:
            return entries[0].line()
        key = (entries[0].seq, entries[-1].seq)
        if key not in self._lines:
            self._lines[key] = encode(merge_frames([entry.frame for entry in entries]))
            if len(self._lines) > KEPT:
                self._lines.popitem(last=False)
        self._lines.move_to_end(key)
        return self._lines[key]

    def clear(self) -> None:
        with self._lock:
            self._lines.clear()
