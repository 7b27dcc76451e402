"""Items between the thread that reads and the viewer that draws, bounded however long the viewer looks away."""

import threading

from kvtop.protocol.events import Event
from kvtop.protocol.frames import Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import Hello
from kvtop.sources.base import Item, LinkUp, Unusable

MAX_ITEMS = 1024
MAX_BYTES = 64 * 1024 * 1024
MAX_EVENTS = 10_000
MAX_OTHERS = 16


class Inbox:
    """Safe from any thread. When it is full, its frames are replaced by one gap that holds their events."""

    def __init__(self, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES) -> None:
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._bytes = 0
        self._max_items = max_items
        self._max_bytes = max_bytes

    def put(self, item: Item, size: int = 0) -> bool:
        """``size``: bytes of its line. False when frames had to be dropped, so that a keyframe is needed."""
        with self._lock:
            self._items.append(item)
            self._bytes += size
            # One item alone is never dropped: a keyframe larger than the limit has to arrive somehow.
            if len(self._items) <= self._max_items and (self._bytes <= self._max_bytes or len(self._items) == 1):
                return True
            self._items = collapse(self._items)
            self._bytes = 0
            return False

    def drain(self) -> list[Item]:
        with self._lock:
            items, self._items, self._bytes = self._items, [], 0
        return items


def collapse(items: list[Item]) -> list[Item]:
    """The items without their frames, but with all events; what was before the latest hello is another connection's."""
    start = max((at for at, item in enumerate(items) if isinstance(item, Hello)), default=None)
    head: list[Item] = [] if start is None else [LinkUp(), items[start]]
    frames: list[IterationFrame | Keyframe | Gap] = []
    others: list[Item] = []
    unusable: Unusable | None = None
    for item in items[0 if start is None else start + 1 :]:
        if isinstance(item, (IterationFrame, Keyframe, Gap)):
            frames.append(item)
        elif isinstance(item, Unusable):
            unusable = Unusable(item.count + (unusable.count if unusable else 0), item.note)
        else:
            others.append(item)
    if frames:
        head.append(_gap(frames))
    if unusable is not None:
        head.append(unusable)
    return head + others[-MAX_OTHERS:]


def _gap(frames: list[IterationFrame | Keyframe | Gap]) -> Gap:
    firsts = [_first(frame) for frame in frames]
    lasts = [frame.last if isinstance(frame, Gap) else frame.seq for frame in frames]
    events: dict[int, Event] = {event.id: event for frame in frames for event in frame.events}
    kept = [events[key] for key in sorted(events)][-MAX_EVENTS:]
    lost = sum(frame.events_lost for frame in frames if isinstance(frame, Gap)) + len(events) - len(kept)
    return Gap(first=min(firsts), last=max(lasts), reason="the screen was too slow", events=kept, events_lost=lost)


def _first(frame: IterationFrame | Keyframe | Gap) -> int:
    if isinstance(frame, Gap):
        return frame.first
    return frame.seq - frame.merged + 1 if isinstance(frame, IterationFrame) else frame.seq
