"""Where one viewer stands in the ring, and which lines it gets next."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvtop.protocol.codec import encode
from kvtop.protocol.frames import Gap, IterationFrame, Keyframe
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.ring import Entry, HeldKeyframe, Ring

TURNS_PER_SECOND = 100.0
"""How often a viewer without a rate of its own is served; all its frames reach it, each on its own line."""

LAGGING_PER_SECOND = 20.0
"""How often a viewer is served that did not keep up; its frames are merged."""

MAX_LINES = 64
"""Single frames handed out in one turn."""


class Told(NamedTuple):
    """A line, and what it was made of: a keyframe (blocks and requests may be missing), a gap, or the frames in it."""

    line: bytes
    made_of: Keyframe | Gap | Sequence[Entry]

    @property
    def facts(self) -> Keyframe | Gap | IterationFrame:
        """What it says, as far as that can be told without merging anything: of frames numbers, dates and events."""
        if isinstance(self.made_of, Keyframe | Gap):
            return self.made_of
        if len(self.made_of) == 1:
            return self.made_of[0].frame
        last = self.made_of[-1].frame
        return IterationFrame.model_construct(
            seq=last.seq,
            merged=sum(entry.frame.merged for entry in self.made_of),
            iteration=last.iteration,
            wall=last.wall,
            mono=last.mono,
            events=[event for entry in self.made_of for event in entry.frame.events],
        )


class Cursor:
    """A viewer joins with the latest keyframe. After that it gets every frame, single or merged, or a gap.

    Turns fall on a grid of the clock, so that viewers of one rate share their merged lines.
    """

    def __init__(self, ring: Ring, lines: MergedLines, want_keyframe: Callable[[], None]) -> None:
        self._ring = ring
        self._lines = lines
        self._want_keyframe = want_keyframe
        self._position: int | None = None
        self._events_seen = 0
        self._after_serial: int | None = None
        self._taken = -math.inf
        self._speed = 0.0
        self.fps: float | None = None
        self.lagging = False

    @property
    def rate(self) -> float:
        """Turns a second."""
        rate = min(self.fps or TURNS_PER_SECOND, TURNS_PER_SECOND)
        if self.lagging:
            rate = min(rate, LAGGING_PER_SECOND)
        # Often enough that the ring is half used at most: a little more than was asked for is better than a gap.
        return max(rate, 2 * self._speed / self._ring.size)

    def ask_keyframe(self) -> None:
        """The viewer wants a keyframe made from now on."""
        self._after_serial = self._ring.serial
        self._want_keyframe()

    def due_at(self) -> float:
        """Monotonic seconds from which on the next turn may be."""
        if self._taken == -math.inf:
            return self._taken
        return (math.floor(self._taken * self.rate) + 1) / self.rate

    def has_news(self) -> bool:
        """Whether `take` would return something."""
        entries = None if self._position is None else self._ring.since(self._position)
        if (entries is None or self._after_serial is not None) and self._keyframe() is not None:
            return True
        return bool(entries)

    def take(self, now: float, last: int | None) -> list[bytes]:
        """The lines of `told`."""
        return [told.line for told in self.told(now, last)]

    def told(self, now: float, last: int | None) -> "list[Told]":
        """What to write now; empty when there is nothing, or when a keyframe has to be made first.

        Frames after frame ``last`` are left for the next turn, so that all viewers of this one share their lines
        although the engine goes on meanwhile.
        """
        entries = None if self._position is None else self._ring.since(self._position)
        if entries is not None and last is not None:
            entries = [entry for entry in entries if entry.seq <= last]
        self._speed = len(entries or ()) / (now - self._taken) if now > self._taken else 0.0
        self._taken = now
        key = self._keyframe() if entries is None or self._after_serial is not None else None
        if entries is None:
            if key is None:
                self._want_keyframe()
                return []
            return [*self._gap(key), self._jump(key)]
        if self._after_serial is not None:
            if key is not None:
                return [*self._frames([entry for entry in entries if entry.seq <= key.seq]), self._jump(key)]
            self._want_keyframe()
        return self._frames(entries if self._merges else entries[:MAX_LINES])

    def rest(self) -> list[bytes]:
        """All that is left, merged, for the farewell; nothing for a viewer that would need a keyframe first."""
        entries = None if self._position is None else self._ring.since(self._position)
        return [line for line, _ in self._lines.of(entries)] if entries else []

    @property
    def _merges(self) -> bool:
        return self.lagging or self.fps is not None

    def _keyframe(self) -> HeldKeyframe | None:
        """The held keyframe if this viewer can go on from it: not behind its position, and no frame missing since."""
        key = self._ring.keyframe
        if key is None or (self._after_serial is not None and key.serial <= self._after_serial):
            return None
        if self._position is not None and key.seq < self._position:
            return None
        return key if self._ring.since(key.seq) is not None else None

    def _frames(self, entries: Sequence[Entry]) -> "list[Told]":
        if not entries:
            return []
        self._position = entries[-1].seq
        self._events_seen = entries[-1].events_end
        if self._merges:
            self.lagging = False
            return [Told(line, frames) for line, frames in self._lines.of(entries)]
        return [Told(entry.line(), (entry,)) for entry in entries]

    def _gap(self, key: HeldKeyframe) -> "list[Told]":
        if self._position is None:
            return []
        events, lost = self._ring.events(self._events_seen, key.events_end)
        gap = Gap.model_construct(first=self._position + 1, last=key.seq, events=events, events_lost=lost)
        return [Told(encode(gap), gap)]

    def _jump(self, key: HeldKeyframe) -> "Told":
        self._position = key.seq
        self._events_seen = key.events_end
        self._after_serial = None
        self.lagging = False
        return Told(key.line(), key.head)
