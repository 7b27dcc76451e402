"""From one moment of a recording to another: frame by frame, by seconds, from one notable fact to the next."""

from collections.abc import Callable
from typing import NamedTuple

from kvtop.protocol.frames import IterationFrame, Keyframe
from kvtop.record.summary import Notable
from kvtop.record.tape import Fact, Place, Tape

LEAD_S = 12.0
"""Seconds before a moment from which frames are read to know the rates at it."""


class Goal(NamedTuple):
    """A kind of fact to go to. ``name`` follows "the next ..."."""

    name: str
    meant: Callable[[Notable], bool]


GOALS: tuple[Goal, ...] = (
    Goal("event", lambda fact: True),
    Goal("preemption", lambda fact: fact.kind == "preempt"),
    Goal("policy change", lambda fact: fact.kind == "policy"),
    Goal("trouble", lambda fact: fact.level in ("error", "warn") and fact.kind not in ("preempt", "policy")),
)
"""The first means every notable fact."""


def step(tape: Tape, place: Place, frames: int) -> Place:
    """So many frames on, back for a negative number; as far as there are any."""
    for _ in range(abs(frames)):
        following = tape.next_place(place) if frames > 0 else tape.previous_place(place)
        if following is None or (tape.start is not None and following < tape.start):
            break
        place = following
    return place


def shift(tape: Tape, place: Place, seconds: float) -> Place:
    """So many seconds on, back for a negative number, by the engine's monotonic clock within its run: the time of day may
    have been set meanwhile. At least one frame, where there is one."""
    here = mono_at(tape, place)
    if here is None:
        return step(tape, place, 1 if seconds > 0 else -1)
    forward = seconds > 0
    found = step(tape, place, 1 if forward else -1)
    if found == place or found.run != place.run:
        return found
    chunks = [c for c in tape.chunks if c.first.run == place.run and c.summary.monos is not None]
    wanted = here + seconds
    for chunk in chunks if forward else reversed(chunks):
        first, last = chunk.summary.monos or (0.0, 0.0)
        if (last < wanted and chunk is not chunks[-1]) if forward else (first > wanted and chunk is not chunks[0]):
            continue
        frames = [f for f in tape.frames_of(chunk) if isinstance(f, IterationFrame | Keyframe)]
        before = [f for f in frames if f.mono <= wanted] or frames[:1]
        if before:
            reached = Place(place.run, before[-1].seq)
            reached = max(reached, found) if forward else min(reached, found)
            start = tape.start
            return reached if start is None else max(start, reached)
    return found


def mono_at(tape: Tape, place: Place) -> float | None:
    """Monotonic seconds of the engine's clock at ``place``."""
    chunk = tape.chunk_of(place)
    if chunk is None or chunk.first.run != place.run:
        return None
    at = None
    for frame in tape.frames_of(chunk):
        if isinstance(frame, IterationFrame | Keyframe):
            if frame.seq > place.seq:
                break
            at = frame.mono
    return at


def next_fact(tape: Tape, place: Place, goal: Goal) -> Fact | None:
    """The first fact told after ``place``; None where there is no more."""
    return next((fact for fact in tape.notable() if fact.place > place and goal.meant(fact.fact)), None)


def previous_fact(tape: Tape, place: Place, goal: Goal) -> Fact | None:
    """The latest fact told before ``place`` whose moment can be shown; None where there is none."""
    start = tape.start
    for fact in reversed(tape.notable()):
        if fact.place < place and goal.meant(fact.fact):
            return fact if start is None or fact.place >= start else None
    return None
