"""The flight recorder of an engine: the last minutes of what viewers would be told, in bounded memory, whoever watches."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvtop.protocol.codec import encode
from kvtop.protocol.hello import Hello
from kvtop.publish.cursor import Cursor, Told
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.ring import Ring
from kvtop.record import Ring as Memory
from kvtop.record import Writer, without_text

FPS = 30.0
"""Lines a second at most; the rate of a viewer's screen, so that both share their lines. Slower engines: every frame."""

ENTRY_S = 20.0
"""Seconds between two keyframes of it: each costs the engine a frame's time for some iterations."""

ENTRY_MOST_S = 60.0
"""The same while little happens against what a keyframe takes, which is a megabyte with a hundred thousand cached blocks."""

ENTRY_SHARE = 4
"""Lines of so many-th of the memory it has call for a keyframe before that, so that dropping the oldest drops little."""


@dataclass(frozen=True, slots=True)
class FlightLimits:
    """What a flight recorder keeps at most. Raises ValueError for what cannot be."""

    minutes: float = 10.0
    mib: float = 32.0

    def __post_init__(self) -> None:
        for name, value, most in (("minutes", self.minutes, 24 * 60.0), ("MiB", self.mib, 65536.0)):
            if not 0.0 <= value <= most:
                raise ValueError(f"flight recorder of {value:g} {name}: 0 (none) to {most:g}")

    @property
    def on(self) -> bool:
        """Both say that there is one."""
        return self.minutes > 0 and self.mib > 0


class FlightRecorder:
    """Takes its lines as a viewer does, from a cursor of its own; prompts and generated text are not among them.

    `serve` is called by the server's thread at `due_at`; `dump` by any.
    """

    def __init__(
        self,
        limits: FlightLimits,
        hello: Hello,
        ring: Ring,
        lines: MergedLines,
        want_keyframe: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        most = round(limits.mib * 2**20)
        self.memory = Memory(most, 60.0 * limits.minutes, clock=clock)
        self._clock = clock
        self._cursor = Cursor(ring, lines, want_keyframe)
        self._cursor.fps = FPS
        self._writer = Writer(
            self.memory,
            entry_s=ENTRY_S,
            entry_most_s=ENTRY_MOST_S,
            entry_bytes=min(8 << 20, most // ENTRY_SHARE),
            clock=clock,
        )
        self._lock = threading.Lock()
        self._writer.take(*without_text(encode(hello), hello))

    def rehello(self, hello: Hello) -> None:
        """Facts about the same engine have changed. From any thread."""
        with self._lock:
            line, told = without_text(encode(hello), hello)
            assert isinstance(told, Hello)
            self._writer.rehello(line, told)

    def serve(self, now: float, last: int | None) -> None:
        """Takes the frames up to ``last`` if they are due, and closes what has been open for long enough."""
        with self._lock:
            if self._cursor.has_news() and now >= self._cursor.due_at():
                self._take(self._cursor.told(now, last))
            self._writer.work()
            if self._writer.wants_keyframe():
                self._cursor.ask_keyframe()

    def due_at(self) -> float | None:
        """When its next turn is, monotonic seconds; None while it waits for news alone."""
        with self._lock:
            times = [self._cursor.due_at()] if self._cursor.has_news() else []
            due = min([*times, self._writer.due_at()])
        return None if due == float("inf") else due

    @property
    def waits(self) -> bool:
        """Nothing is there that it has not taken."""
        with self._lock:
            return not self._cursor.has_news()

    def dump(self, path: Path) -> int:
        """All that has been published until now, as a recording in ``path`` (`kvtop.record.Ring.dump`). Its bytes."""
        with self._lock:
            self._take(self._cursor.told(self._clock(), None))
            self._writer.flush()
        return self.memory.dump(path)

    def _take(self, told: list[Told]) -> None:
        for each in told:
            self._writer.take(*without_text(each.line, each.facts))
