"""The last frames of an engine, shared by all viewers, with the latest keyframe and a log of events beside it."""

import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from kvtop.protocol.codec import encode
from kvtop.protocol.events import Event
from kvtop.protocol.frames import IterationFrame, Keyframe

EVENT_LOG = 10_000

AWAITING_MOST = 16
"""Times its size that the ring holds at most while a keyframe is on its way: a second of a fast engine is thousands of
frames, and a keyframe of a million unlike blocks takes a second to encode."""


class Entry:
    """A frame, and its line once somebody needed it. ``events_end`` counts the events up to and with it."""

    __slots__ = ("_line", "events_end", "frame")

    def __init__(self, frame: IterationFrame, events_end: int) -> None:
        self.frame = frame
        self.events_end = events_end
        self._line: bytes | None = None

    @property
    def seq(self) -> int:
        return self.frame.seq

    def line(self) -> bytes:
        if self._line is None:
            self._line = encode(self.frame)
        return self._line


class EncodedKeyframe(NamedTuple):
    """A keyframe as its line already, for an engine that makes it beside its work. ``head``: the keyframe, of which blocks and
    requests may be missing."""

    seq: int
    line: bytes
    head: Keyframe


class HeldKeyframe:
    """The latest keyframe. ``serial`` counts keyframes, ``events_end`` the events before it."""

    __slots__ = ("_line", "events_end", "head", "seq", "serial")

    def __init__(self, frame: Keyframe | EncodedKeyframe, serial: int, events_end: int) -> None:
        self.seq = frame.seq
        self.serial = serial
        self.events_end = events_end
        self.head = frame.head if isinstance(frame, EncodedKeyframe) else frame
        """The keyframe; of one that came encoded blocks and requests may be missing."""
        self._line: bytes | None = frame.line if isinstance(frame, EncodedKeyframe) else None

    def line(self) -> bytes:
        if self._line is None:
            self._line = encode(self.head)
        return self._line


class Ring:
    """Bounded. One thread appends, another reads; the lock is held for a copy of references, never for encoding."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"ring of {size} frames: at least 1 is needed")
        self.size = size
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._events: deque[Event] = deque(maxlen=EVENT_LOG)
        self._event_count = 0
        self._keyframe: HeldKeyframe | None = None
        self._serial = 0
        self._last_seq: int | None = None
        self._awaited: int | None = None
        self._grace = 0

    @property
    def last_seq(self) -> int | None:
        """Seq of the latest frame or keyframe; None before the first."""
        return self._last_seq

    @property
    def keyframe(self) -> HeldKeyframe | None:
        return self._keyframe

    @property
    def serial(self) -> int:
        """Keyframes so far."""
        return self._serial

    def append(self, frame: IterationFrame, room: int | None = None) -> None:
        """Frames come in the order of seq, ValueError otherwise. A hole forgets what was before it: viewers get a gap.

        ``room``: frames to be kept, default: the ring's size; fewer where hardly anybody is there to be behind.
        """
        with self._lock:
            if self._last_seq is not None:
                missed = frame.seq - frame.merged - self._last_seq
                if missed < 0:
                    raise ValueError(f"frame {frame.seq} (merged {frame.merged}) follows frame {self._last_seq}")
                if missed > 0:
                    self._entries.clear()
            self._events.extend(frame.events)
            self._event_count += len(frame.events)
            self._entries.append(Entry(frame, self._event_count))
            self._last_seq = frame.seq
            self._trim(self.size if room is None else min(room, self.size))

    def await_keyframe(self, seq: int) -> None:
        """A keyframe as of frame ``seq`` is on its way: until `hold` frames behind it stay, or it would come too late for
        anybody to go on from it."""
        with self._lock:
            self._awaited, self._grace = seq, 0

    def _trim(self, room: int) -> None:
        entries = self._entries
        if self._grace:
            self._grace -= 1
            if not self._grace:
                self._awaited = None
        awaited = self._awaited
        # Two for the one that came: thousands at once would be felt.
        for _ in range(2):
            kept = awaited is not None and entries[0].seq > awaited and len(entries) <= AWAITING_MOST * self.size
            if kept or len(entries) <= room:
                break
            entries.popleft()

    def pass_over(self, seq: int, events: Sequence[Event]) -> None:
        """Nobody watches, and no frames are made up to ``seq``; their ``events`` are kept. Who comes gets a new keyframe.
        Raises ValueError where ``seq`` is older than what is here."""
        with self._lock:
            if self._last_seq is not None and seq < self._last_seq:
                raise ValueError(f"frame {seq} is passed over after frame {self._last_seq}")
            self._events.extend(events)
            self._event_count += len(events)
            self._entries.clear()
            self._keyframe = None
            self._last_seq = seq

    def hold(self, frame: Keyframe | EncodedKeyframe) -> None:
        """Takes the latest keyframe. ValueError when it is older than the one held."""
        with self._lock:
            if self._keyframe is not None and frame.seq < self._keyframe.seq:
                raise ValueError(f"keyframe of frame {frame.seq} follows one of frame {self._keyframe.seq}")
            if self._last_seq is None or frame.seq > self._last_seq:
                self._entries.clear()
                self._last_seq = frame.seq
            if self._awaited is not None:
                # Viewers have as long to go on from it as for any frame.
                self._grace = self.size
            self._serial += 1
            self._keyframe = HeldKeyframe(frame, self._serial, self._events_before(frame.seq))

    def _events_before(self, seq: int) -> int:
        """How many events the frames up to ``seq`` brought, as far back as the ring knows."""
        for entry in reversed(self._entries):
            if entry.seq <= seq:
                return entry.events_end
        if self._entries:
            return self._entries[0].events_end - len(self._entries[0].frame.events)
        return self._event_count

    def since(self, seq: int) -> list[Entry] | None:
        """The frames after frame ``seq``, oldest first; None when some of them are no longer here."""
        with self._lock:
            if self._last_seq is None or seq > self._last_seq:
                return None
            found: list[Entry] = []
            expected = self._last_seq
            for entry in reversed(self._entries):
                if entry.seq <= seq:
                    break
                found.append(entry)
                expected = entry.seq - entry.frame.merged
            if expected > seq:
                return None
            found.reverse()
            return found

    def events(self, start: int, end: int) -> tuple[list[Event], int]:
        """Events number ``start`` up to ``end`` (counted from the engine's start), and how many of them are lost."""
        with self._lock:
            oldest = self._event_count - len(self._events)
            first = max(start, oldest)
            held = list(islice(self._events, first - oldest, max(first, end) - oldest))
            return held, min(max(0, oldest - start), max(0, end - start))
