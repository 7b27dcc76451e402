"""The state at a recorded moment: frames folded from where reading can start, by their own clock."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import IterationFrame, Keyframe
from kvtop.record import Place, RecordedClock, Tape
from kvtop.state.changes import Changes
from kvtop.state.engine_state import EngineState


@dataclass
class Fold:
    """Applies recorded frames to ``state``. Ages and waits go by ``clock``, the recording's own, not by the viewer's."""

    state: EngineState = field(default_factory=EngineState)
    clock: RecordedClock = field(default_factory=RecordedClock)

    def apply(self, frame: AnyFrame) -> Changes:
        return self.state.apply(frame, recorded_time(self.clock, frame))

    def all_of(self, frames: Iterable[AnyFrame]) -> None:
        for frame in frames:
            self.apply(frame)


def recorded_time(clock: RecordedClock, frame: AnyFrame) -> float:
    """When ``frame`` came, by the recording's clock, which is moved on to it."""
    if isinstance(frame, IterationFrame | Keyframe):
        return clock.take(frame.mono, frame.wall)
    return clock.now


@dataclass(frozen=True, slots=True)
class Moment:
    """``state`` as it was at ``place``; ``now``: the time to look at it with, in place of the viewer's monotonic clock."""

    state: EngineState
    place: Place
    now: float
    trouble: str
    """Why the state is of an earlier frame than was asked for; empty where it is not."""


def moment(tape: Tape, place: Place, lead_s: float = 0.0) -> Moment | None:
    """The state just after the frame at ``place``; None where nothing is recorded that it could be told from.

    Rates and percentiles know only what was folded: reading starts ``lead_s`` seconds before the moment, or up to an entry
    earlier. What is damaged is told by the tape, and leaves the state at the last frame before it.
    """
    entry = tape.entry_leading(place, lead_s)
    if entry is None:
        return None
    fold = Fold()
    with _no_collections():
        fold.all_of(frame for _, frame in tape.folded(entry, place))
    state = fold.state
    if state.seq is None:
        return None
    reached = Place(place.run, state.seq)
    trouble = "" if not state.resync else f"what follows frame {state.seq} is missing or damaged"
    return Moment(state, reached, fold.clock.now, trouble)


@contextmanager
def _no_collections() -> Iterator[None]:
    """A keyframe is a hundred thousand objects that come and go: the garbage collector would look at all there are, again
    and again, and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
