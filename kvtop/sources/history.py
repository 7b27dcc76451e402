"""What a viewer has seen of its engine in the last minutes, to be looked back on."""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import Keyframe
from kvtop.record import Packed, Ring, RingTape, Tape, TemporaryFiles, Writer
from kvtop.record.ring import Kept

MINUTES: Final = 15.0
MAX_BYTES: Final = 64 << 20
"""In files without a name, which take none of the viewer's memory."""

ENTRY_S: Final = 20.0
"""Seconds between two moments from which reading can start: for each the engine sends a keyframe."""

LARGE: Final = 1 << 20
"""Bytes of a keyframe from which on they are asked for as much more seldom as they are larger: to read one takes time."""


class Keeper(Protocol):
    """Keeps what a source's connection says."""

    def take(self, line: bytes, frame: AnyFrame | None) -> None:
        """A line as it came and what it says; None for a type that this version does not know. Returns at once."""

    def wants_keyframe(self) -> bool:
        """True once for each time that the engine should be asked for one."""

    def tape(self) -> Tape | None:
        """What has come up to now, to be looked back on; None where it is kept for others."""

    def close(self) -> None:
        """Nothing comes any more."""


class History:
    """One thread gives it lines (`take`), another looks at what has come (`tape`)."""

    def __init__(
        self,
        minutes: float = MINUTES,
        max_bytes: int = MAX_BYTES,
        *,
        keep: Callable[[Packed], Kept] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._not_before = 0.0
        self._ring = Ring(max_bytes, 60.0 * minutes, keep=keep or TemporaryFiles(), clock=clock)
        self._writer = Writer(self._ring, entry_s=ENTRY_S, clock=clock)
        self._tape: RingTape | None = None

    def take(self, line: bytes, frame: AnyFrame | None) -> None:
        """A line as it came and what it says; None for a type that this version does not know."""
        with self._lock:
            self._writer.work()
            self._writer.take(line, frame)
            if isinstance(frame, Keyframe):
                self._not_before = self._clock() + ENTRY_S * max(1.0, len(line) / LARGE)

    def wants_keyframe(self) -> bool:
        """True once for each time that the engine should be asked for one."""
        with self._lock:
            return self._clock() >= self._not_before and self._writer.wants_keyframe()

    def tape(self) -> RingTape:
        """All that has come up to now. One thread may use it."""
        with self._lock:
            self._writer.flush()
        if self._tape is None:
            self._tape = RingTape(self._ring)
        return self._tape

    def close(self) -> None:
        with self._lock:
            self._writer.close()
