"""A stretch of a recording, frame by frame: what every format is written from. One state is held, never the frames."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import floor

from kvtop.protocol import AnyFrame, Hello, Keyframe
from kvtop.record import Place, Tape
from kvtop.state import Changes, EngineState, LogEntry
from kvtop.state.moment import Fold
from kvtop.views.second import Second, second_of

LEAD_S = 12.0
"""Seconds before the stretch from which frames are read, so that its first rates are known."""


class NothingToExport(ValueError):
    """Nothing of the stretch can be told. One sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """A frame of the stretch, taken in.

    ``state``: as it is after it, and changed by the next; ``now``: seconds of the recording's own clock, which never goes back;
    ``run``: which life of the engine, from 1 in this stretch; ``first``: nothing of that life was told before.
    """

    frame: AnyFrame
    state: EngineState
    changes: Changes
    now: float
    run: int
    first: bool

    def news(self) -> list[LogEntry]:
        """Events of the stretch: a keyframe at its beginning repeats what happened before, which is none of it."""
        if self.run > 1 or not self.first or not isinstance(self.frame, Keyframe):
            return self.changes.events
        began = self.frame.wall
        return [entry for entry in self.changes.events if entry.wall is not None and entry.wall >= began]


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``first`` to ``last`` of ``tape``."""

    tape: Tape
    first: Place
    last: Place

    def steps(self) -> Iterator[Step]:
        """Its frames in order. Raises `NothingToExport` where there are none."""
        entry = self.tape.entry_leading(self.first, LEAD_S)
        entry = entry or next((chunk for chunk in self.tape.chunks if chunk.summary.entry), None)
        if entry is None:
            raise NothingToExport("nothing is recorded that could be told")
        fold, place_run, known, told, run = Fold(), entry.first.run - 1, None, None, 0
        for frame in self.tape.frames(entry, self.last):
            if isinstance(frame, Hello) and frame.engine.run != known:
                known, place_run = frame.engine.run, place_run + 1
            changes = fold.apply(frame)
            state = fold.state
            if state.seq is None or state.wall is None or state.hello is None:
                continue
            if not run and Place(place_run, state.seq) < self.first:
                continue  # read to know the state at the first
            begins = place_run != told
            run, told = run + begins, place_run
            yield Step(frame, state, changes, fold.clock.now, run, begins)
        if not run:
            raise NothingToExport("nothing is recorded there that could be told")

    def trouble(self) -> list[str]:
        """What of it is missing or damaged, as far as it has been read, in sentences. A restart leaves nothing out."""
        spans = [span for span in self.tape.spans() if span.last >= self.first and span.first <= self.last]
        damage = [f"{damage.size} bytes at {damage.at}: {damage.reason}" for damage in self.tape.damage]
        holes = [span.hole for before, span in pairwise(spans) if before.last.run == span.first.run]
        return [*holes, *damage]


class Ticks:
    """Whether a new second of the recording has begun: at most one a second, none for a second in which nothing was told."""

    def __init__(self) -> None:
        self._base: float | None = None
        self._next = 0

    def due(self, step: Step) -> bool:
        if self._base is None:
            self._base = step.now
        second = floor(step.now - self._base)
        if not step.first and second < self._next:
            return False
        self._next = second + 1
        return True


def seconds(steps: Iterator[Step]) -> Iterator[tuple[int, Second]]:
    """The run, and what is told of a second of it: levels and rates at the first frame in it."""
    ticks = Ticks()
    for step in steps:
        if ticks.due(step):
            yield step.run, second_of(step.state)
