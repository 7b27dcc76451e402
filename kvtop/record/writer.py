"""Lines to chunks: when one is closed, when reading can start anew, and what becomes of lines that cannot be written."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import zstandard

from kvtop.protocol.codec import AnyFrame, encode
from kvtop.protocol.events import Event
from kvtop.protocol.frames import Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import Hello
from kvtop.record.chunk import LEVEL, Packed, pack
from kvtop.record.digest import Digest
from kvtop.record.sink import Sink
from kvtop.record.summary import Gathering

CHUNK_S = 1.0
"""Seconds that a chunk is open at most: what a crash loses."""

CHUNK_BYTES = 4 << 20
"""Bytes of lines after which it is closed before that."""

ENTRY_S = 10.0
"""Seconds between two chunks that reading can start at."""

ENTRY_SHARE = 8
"""Where entries may come more seldom: bytes of lines, in those of the latest keyframe, after which the next is due."""

ENTRY_BYTES = 8 << 20
"""Bytes of lines after which the next is wanted before that: to go to a moment costs reading these."""

ASK_AGAIN_S = 5.0
"""Seconds until a keyframe is asked for anew that did not come, and until a store that failed is tried again."""

MAX_EVENTS = 1000
"""Events kept of what could not be written, for the gap line that tells of it."""


@dataclass(slots=True)
class _Hole:
    """Frames that are not in the recording."""

    reason: str
    run: str | None
    first: int
    last: int
    events: list[Event] = field(default_factory=list)
    lost: int = 0

    def add(self, run: str | None, events: list[Event], last: int) -> None:
        """Frames of ``run`` up to ``last``, which brought ``events``."""
        if run != self.run:
            self.lost += len(events)  # their numbers would be taken for the other run's
            return
        self.last = max(self.last, last)
        room = max(0, MAX_EVENTS - len(self.events))
        self.events += events[:room]
        self.lost += max(0, len(events) - room)

    def line(self) -> tuple[bytes, Gap]:
        gap = Gap(first=self.first, last=self.last, reason=self.reason[:200], events=self.events, events_lost=self.lost)
        return encode(gap), gap


class Writer:
    """Give it every line an engine sends, in order, and call `work` at `due_at`. It never raises for what its store does.

    A store that fails is told once (``tell``), tried again every few seconds, and the frames lost meanwhile are marked by
    a gap line, with their events, when it takes something again. One thread at a time.

    ``wants_keyframe`` says when the engine should be asked for one; every keyframe begins a chunk that reading can start
    at. That is after ``entry_s`` seconds; with ``entry_most_s`` up to so many later, as long as what came since is not many
    times the keyframe. ``digests``: frames are merged besides, so that reading over many of them takes less time; they must
    be whole then. ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        tell: Callable[[str], None] = lambda _: None,
        chunk_s: float = CHUNK_S,
        entry_s: float = ENTRY_S,
        entry_most_s: float | None = None,
        entry_bytes: int = ENTRY_BYTES,
        digests: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._tell = tell
        self._chunk_s, self._entry_s, self._entry_bytes = chunk_s, entry_s, entry_bytes
        self._entry_most_s = entry_s if entry_most_s is None else entry_most_s
        self._entry_size = 0
        """Bytes of the latest keyframe."""
        self._digest = Digest() if digests else None
        self._clock = clock
        self._gathering = Gathering()
        self._compressor = zstandard.ZstdCompressor(LEVEL)
        self._hello: tuple[bytes, Hello] | None = None
        self._run: str | None = None
        self._seq: int | None = None
        """Of the latest frame that came; None before the first keyframe of a run."""
        self._lines: list[bytes] = []
        self._size = 0
        self._opened = math.inf
        self._chunk_from: int | None = None
        """Seq behind which the open chunk's frames begin."""
        self._chunk_events: list[Event] = []
        self._hole: _Hole | None = None
        """What is missing since the latest line of the recording, until it goes on with a keyframe."""
        self._failing = False
        self._retry_at = -math.inf
        self._entry_at = -math.inf
        self._since_entry = 0
        self._asked_at = -math.inf
        self.chunks = 0
        """Written so far."""
        self.trouble: str | None = None
        """Why nothing is written at present."""

    # -- what comes in ------------------------------------------------------------------------------------------

    def take(self, line: bytes, frame: AnyFrame | None) -> None:
        """``line``: with or without its newline; ``frame``: what it says, None for a type this version does not know."""
        if not line.endswith(b"\n"):
            line += b"\n"
        if isinstance(frame, Hello):
            self._begin(line, frame)
        elif isinstance(frame, Keyframe):
            self._enter(line, frame)
        elif isinstance(frame, IterationFrame):
            self._iteration(line, frame)
        elif isinstance(frame, Gap):
            self._gap(line, frame)
        elif self._recording:
            self._put(line, frame)

    def rehello(self, line: bytes, hello: Hello) -> None:
        """What the engine says of itself from now on; nothing is missing for it."""
        self._hello = (line if line.endswith(b"\n") else line + b"\n", hello)

    def interrupted(self, reason: str) -> None:
        """Lines are missing from here on: the connection was lost, or they came too fast. Goes on with a keyframe."""
        if self._recording and self._seq is not None:
            self._hole = _Hole(reason, self._run, self._seq + 1, self._seq)
        self._asked_at = -math.inf

    def wants_keyframe(self) -> bool:
        """True once for each time that the engine should be asked for one."""
        now = self._clock()
        if self._hello is None or now < self._asked_at + ASK_AGAIN_S:
            return False
        if self._failing:
            wanted = now >= self._retry_at
        else:
            much = self._since_entry >= ENTRY_SHARE * self._entry_size
            old = now >= self._entry_at + (self._entry_s if much else self._entry_most_s)
            old = old or self._since_entry >= self._entry_bytes
            wanted = old or not self._recording
        if wanted:
            self._asked_at = now
        return wanted

    def due_at(self) -> float:
        """When `work` has something to do at the latest; infinity while nothing has come."""
        return self._opened + self._chunk_s

    def work(self) -> None:
        """Closes the chunk that has been open for long enough."""
        if self._clock() >= self.due_at():
            self._close()

    def flush(self) -> None:
        """Closes the chunk that is open."""
        self._close()

    def close(self) -> None:
        """Writes what is left and closes the store."""
        self._close()
        self._sink.close()

    # -- line by line -------------------------------------------------------------------------------------------

    @property
    def _recording(self) -> bool:
        return self._seq is not None and self._hole is None

    def _begin(self, line: bytes, hello: Hello) -> None:
        self._close()
        self._hello = (line, hello)
        if hello.engine.run != self._run:
            # The frames of one run say nothing of another's.
            self._run, self._seq = hello.engine.run, None
            if not self._failing:
                self._hole = None
        else:
            self.interrupted("the recorder was not connected")
        self._asked_at = self._clock()  # the engine sends one by itself now

    def _enter(self, line: bytes, frame: Keyframe) -> None:
        if self._hello is None:
            return
        if self._recording and self._seq is not None and frame.seq > self._seq:
            self.interrupted("frames are missing")
        self._close()
        if self._hole is not None:
            self._hole.add(self._run, [], frame.seq)
        self._seq = frame.seq
        if self._failing and self._clock() < self._retry_at:
            return
        self._asked_at = -math.inf
        hole, self._hole = self._hole, None
        before: list[Packed] = []
        if hole is not None and hole.last >= hole.first:
            gap_line, gap = hole.line()
            self._gathering.take(gap, len(gap_line))
            before = [pack(self._gathering.finish(), gap_line, self._compressor)]
        self._entry_at, self._since_entry, self._entry_size = self._clock(), 0, len(line)
        self._put(*self._hello)
        self._put(line, frame)
        if before or self._failing or self._size >= CHUNK_BYTES:
            # At once, to know whether the store takes it: a gap is told only together with what goes on behind it.
            self._close(before, hole)

    def _iteration(self, line: bytes, frame: IterationFrame) -> None:
        if self._recording and self._seq is not None:
            if frame.seq <= self._seq:
                return  # told already
            if frame.seq - frame.merged != self._seq:
                self.interrupted("frames are missing")
        if self._hole is not None:
            self._hole.add(self._run, frame.events, frame.seq)
        if not self._recording:
            return
        self._put(line, frame)
        self._seq = frame.seq
        self._chunk_events += frame.events
        self._since_entry += len(line)
        if self._size >= CHUNK_BYTES:
            self._close()

    def _gap(self, line: bytes, gap: Gap) -> None:
        if self._hole is not None:
            self._hole.add(self._run, gap.events, gap.last)
            self._hole.lost += gap.events_lost
        elif self._seq is not None:
            self._put(line, gap)
            self._chunk_events += gap.events
            self._seq = gap.last

    def _put(self, line: bytes, frame: AnyFrame | None) -> None:
        if not self._lines:
            self._opened, self._chunk_from = self._clock(), self._seq
        self._gathering.take(frame, len(line))
        if self._digest is not None:
            self._digest.take(frame, self._clock())
        self._lines.append(line)
        self._size += len(line)

    # -- to the store -------------------------------------------------------------------------------------------

    def _close(self, before: list[Packed] | None = None, hole: _Hole | None = None) -> None:
        """``before``: chunks to be written with it, which tell of ``hole``."""
        if not self._lines:
            return
        lines, events, start = b"".join(self._lines), self._chunk_events, self._chunk_from
        self._lines, self._size, self._opened, self._chunk_events, self._chunk_from = [], 0, math.inf, [], None
        digest = None if self._digest is None else self._digest.close(self._clock())
        chunks = [*(before or ()), pack(self._gathering.finish(), lines, self._compressor, digest)]
        try:
            self._sink.append(chunks)
        except OSError as error:
            self._failed(error, events, start, hole)
            return
        self.chunks += len(chunks)
        if self._failing:
            self._failing, self.trouble = False, None
            self._tell("recording goes on; what is missing is marked by a gap")

    def _failed(self, error: OSError, events: list[Event], start: int | None, hole: _Hole | None) -> None:
        reason = f"not recorded: {error.strerror or error}"
        self._retry_at = self._clock() + ASK_AGAIN_S
        self._asked_at = -math.inf
        if hole is None:
            first = (self._seq or 0) if start is None else start
            hole = _Hole(reason, self._run, first + 1, first)
        hole.add(self._run, events, self._seq or 0)
        self._hole = hole
        self.trouble = reason
        if not self._failing:
            self._failing = True
            self._tell(f"{reason}; trying again every {ASK_AGAIN_S:g} s")
