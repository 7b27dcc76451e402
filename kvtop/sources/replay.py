"""A recording as a source: its frames come when they came, at any speed, from any place on."""

import time
from collections import deque
from collections.abc import Callable

from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import Gap, IterationFrame, Keyframe
from kvtop.record.clock import RecordedClock
from kvtop.record.going import LEAD_S
from kvtop.record.playback import FASTEST, SLOWEST, UNBOUNDED, Playback
from kvtop.record.tape import Indexed, Place, Tape
from kvtop.sources.base import Item, LinkUp, Recorded, Rewound, Unusable
from kvtop.sources.continuity import Continuity

BUDGET_S = 0.03
"""Seconds that one `ReplaySource.poll` reads; where that is too little for the speed, the recording is played slower."""

LONGEST_TURN_S = 0.5
"""Seconds between two polls that count as time passed: a viewer that was stopped does not run through an hour after it."""

REFRESH_S = 0.5
"""Seconds between two looks for what has been recorded since, at the end."""

IDLE_S = 5.0
"""Recorded seconds without a frame after which playing goes on with the next one."""


class ReplaySource:
    """Plays ``tape``, of which it is the only user, from ``at`` (default: its start). Everything is done in `poll`.

    ``speed``: recorded seconds in a second, `SLOWEST` to `FASTEST`, or `UNBOUNDED`. ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        tape: Tape,
        title: str,
        *,
        speed: float = 1.0,
        at: Place | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tape = tape
        self.title = title
        self._clock = clock
        self._playback = Playback(speed=checked_speed(speed))
        self._recorded = RecordedClock()
        self._continuity = Continuity()
        self._wanted: Place | None = at
        self._place: Place | None = None
        self._time = 0.0
        """Recorded time that has been reached."""
        self._turned: float | None = None
        self._looked = float("-inf")
        self._ahead: deque[tuple[Indexed, AnyFrame]] = deque()
        self._number = 0
        """Of the chunk that is read next."""
        self._hole_told = False
        """The hole before the next frame has been told by the recording itself."""
        self._next_due = 0.0
        self._damaged = 0
        self._started = self._closed = False

    # -- as any source ------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._started = True
        self.seek(self._wanted)

    def poll(self) -> list[Item]:
        if self._closed or not self._started:
            return []
        now = self._clock()
        passed = 0.0 if self._turned is None else min(LONGEST_TURN_S, max(0.0, now - self._turned))
        self._turned = now
        items: list[Item] = []
        if self._wanted is not None:
            items += self._go()
        elif not self._playback.paused:
            items += self._play(passed, now + BUDGET_S)
        if len(self._tape.damage) > self._damaged:
            latest = self._tape.damage[-1]
            note = f"at byte {latest.at}: {latest.reason}"
            items.append(Unusable(len(self._tape.damage) - self._damaged, note))
            self._damaged = len(self._tape.damage)
        return items

    def pace(self, fps: float) -> None:
        """All frames are there already."""

    def request_keyframe(self) -> None:
        """The next one in the recording comes by itself."""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._tape.close()

    def tape(self) -> Tape:
        return self._tape

    # -- as a recording -----------------------------------------------------------------------------------------

    @property
    def playback(self) -> Playback:
        return self._playback

    @property
    def place(self) -> Place | None:
        """Of the latest frame that was handed out, or of the one that is gone to."""
        return self._place if self._wanted is None else self._wanted

    @property
    def time(self) -> float:
        """The recorded time that has been reached: what ages and waits go by."""
        return self._time

    def pause(self) -> None:
        self._playback = self._playback._replace(paused=True)

    def go_on(self) -> None:
        self._playback = self._playback._replace(paused=False)

    def set_speed(self, speed: float) -> None:
        """Raises ValueError for one that cannot be."""
        self._playback = self._playback._replace(speed=checked_speed(speed))

    def seek(self, place: Place | None) -> None:
        """The next `poll` hands out what makes the state at ``place``, or at the latest moment before it; None: the start."""
        start, end = self._tape.start, self._tape.end
        if start is not None and end is not None:
            self._wanted = min(end, max(start, start if place is None else place))

    # -- reading ------------------------------------------------------------------------------------------------

    def _go(self) -> list[Item]:
        """To the place that is wanted."""
        wanted, self._wanted = self._wanted, None
        entry = None if wanted is None else self._tape.entry_leading(wanted, LEAD_S)
        if wanted is None or entry is None:
            return []
        self._recorded.leap()
        self._continuity = Continuity()
        self._ahead.clear()
        self._place = None
        self._playback = self._playback._replace(ended=False)
        items: list[Item] = [LinkUp(), Rewound()]
        for following in self._tape.folded(entry, wanted):
            self._ahead.append(following)
            items += self._take()
        self._time = self._recorded.now
        self._go_on_behind(wanted)
        return items

    def _go_on_behind(self, place: Place) -> None:
        """What is read next are the frames after that moment."""
        chunk = self._tape.chunk_of(place)
        if chunk is not None:
            frames = [(chunk, frame) for frame in self._tape.frames_of(chunk)]
            told = [at for at, each in enumerate(frames) if (self._place_of(*each) or place) <= place]
            self._ahead.extend(frames[told[-1] + 1 if told else 0 :])
            self._number = chunk.number + 1

    def _play(self, passed: float, until: float) -> list[Item]:
        unbounded = self._playback.speed == UNBOUNDED
        reached = self._time + (0.0 if unbounded else passed * self._playback.speed)
        items: list[Item] = []
        while (following := self._next()) is not None:
            _, frame = following
            if not unbounded and isinstance(frame, IterationFrame | Keyframe) and self._due(frame, reached) is False:
                break
            items += self._take()
            if self._clock() >= until:
                reached = self._recorded.now
                break
        at_end = following is None
        # At the end nothing is known of what came after; time stands still there.
        self._time = (
            self._recorded.now if unbounded or at_end else max(self._recorded.now, min(reached, self._next_due))
        )
        if at_end != self._playback.ended:
            self._playback = self._playback._replace(ended=at_end)
        return items

    def _due(self, frame: IterationFrame | Keyframe, reached: float) -> bool:
        at = self._recorded.would_be(frame.mono, frame.wall)
        self._next_due = at
        return at <= reached or at - self._recorded.now > IDLE_S

    def _next(self) -> tuple[Indexed, AnyFrame] | None:
        """The frame that comes next; None at the end."""
        while not self._ahead:
            chunk = self._tape.chunk(self._number)
            if chunk is None:
                now = self._clock()
                if now < self._looked + REFRESH_S:
                    return None
                self._looked = now
                if not self._tape.refresh():
                    return None
                continue
            self._number = chunk.number + 1
            self._ahead.extend((chunk, frame) for frame in self._tape.frames_of(chunk))
        return self._ahead[0]

    def _take(self) -> list[Item]:
        chunk, frame = self._ahead.popleft()
        if isinstance(frame, Gap):
            self._hole_told = True
        if not isinstance(frame, IterationFrame | Keyframe):
            parts = self._continuity.take(frame) if isinstance(frame, Gap) else [frame]
            return [Recorded(part, self._recorded.now) for part in parts]
        before, self._place = self._place, Place(chunk.first.run, frame.seq)
        told, self._hole_told = self._hole_told, False
        items: list[Item] = []
        if isinstance(frame, Keyframe) and before is not None and self._place > before:
            self._recorded.leap()  # nobody knows what was between
            if self._place.run == before.run and not told:
                gap = Gap(first=before.seq + 1, last=frame.seq, reason="missing in the recording")
                items.append(Recorded(gap, self._recorded.now))
        at = self._recorded.take(frame.mono, frame.wall)
        return [*items, *(Recorded(part, at) for part in self._continuity.take(frame))]

    @staticmethod
    def _place_of(chunk: Indexed, frame: AnyFrame) -> Place | None:
        return Place(chunk.first.run, frame.seq) if isinstance(frame, IterationFrame | Keyframe) else None


def checked_speed(speed: float) -> float:
    """Raises ValueError, in a sentence, for a speed that cannot be."""
    if speed != UNBOUNDED and not SLOWEST <= speed <= FASTEST:
        raise ValueError(f"speed {speed:g} is not between {SLOWEST:g} and {FASTEST:g}, nor max")
    return speed
