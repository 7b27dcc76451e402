"""Looking back: which recorded moment the screen shows, and the ways from one moment to another.

In a replay the recording itself is gone about in. Of a live engine what the viewer has recorded since it attached is looked
at, while frames go on being taken over.
"""

from collections.abc import Callable

from kvtop.app.feed import Feed
from kvtop.protocol import Event
from kvtop.record import Place, Tape
from kvtop.record.going import GOALS, LEAD_S, Goal, next_fact, previous_fact, shift, step
from kvtop.record.preempted import Preempted, preempted
from kvtop.record.tape import Fact
from kvtop.record.when import WhenError, place_of
from kvtop.state import EngineState, LogEntry
from kvtop.state.moment import Moment, moment
from kvtop.views.events import event_sentence
from kvtop.views.format import clock
from kvtop.views.rows import clean


class CannotGo(Exception):
    """A sentence that says why there is nowhere to go."""


class TimeTravel:
    """Moves what ``feed`` shows in time. ``now``: the viewer's monotonic clock. Ways to go return what there is to say of
    where they led, and raise `CannotGo`."""

    def __init__(self, feed: Feed, now: Callable[[], float]) -> None:
        self._feed, self._now = feed, now
        self._goal = 0
        self.mark: Place | None = None

    @property
    def goal(self) -> Goal:
        """What `next` and `previous` go to."""
        return GOALS[self._goal]

    @property
    def tape(self) -> Tape:
        tape = self._feed.tape()
        if tape is None:
            raise CannotGo("nothing is recorded here that one could look back on")
        if tape.start is None:
            raise CannotGo("nothing has been recorded yet that one could look back on")
        return tape

    def here(self, tape: Tape) -> Place:
        place = self._feed.place or tape.end or tape.start
        assert place is not None  # `tape` has made sure of it
        return place

    def where(self) -> tuple[Tape, Place]:
        """What is recorded, to be read by another thread, and the shown moment. Raises `CannotGo`."""
        tape = self.tape
        try:
            return tape.again(), self.here(tape)
        except (OSError, ValueError) as error:
            raise CannotGo(f"what is recorded cannot be read: {error}") from None

    # -- ways to go ---------------------------------------------------------------------------------------------

    def step(self, frames: int) -> str:
        tape = self.tape
        return self._to(tape, step(tape, self.here(tape), frames), forward=frames > 0)

    def shift(self, seconds: float) -> str:
        tape = self.tape
        return self._to(tape, shift(tape, self.here(tape), seconds), forward=seconds > 0)

    def next(self) -> str:
        tape = self.tape
        return self._to_fact(tape, next_fact(tape, self.here(tape), self.goal), "after")

    def previous(self) -> str:
        tape = self.tape
        return self._to_fact(tape, previous_fact(tape, self.here(tape), self.goal), "before")

    def go(self, text: str) -> str:
        """To the moment that ``text`` means (`kvtop.record.when`)."""
        tape = self.tape
        try:
            place = place_of(text, tape)
        except WhenError as error:
            raise CannotGo(str(error)) from None
        return self._look(tape, place)

    def preempted(self) -> tuple[list[Preempted], int]:
        """Who was preempted up to the shown moment, the most preempted first; and how many events the index left out."""
        tape = self.tape
        found, left_out = preempted(tape, self.here(tape))
        if not found:
            raise CannotGo("no preemption is recorded up to this moment")
        return found, left_out

    def to_preemption(self, request: Preempted) -> str:
        """To the first moment that told of it."""
        tape = self.tape
        if tape.start is None or request.first < tape.start:
            raise CannotGo("that moment is no longer recorded")
        said = self._look(tape, request.first)
        return next(
            (event_sentence(entry) for entry in self._feed.shown.events.latest() if _preempts(entry, request)), said
        )

    def next_goal(self) -> str:
        """Another kind of thing to go to."""
        self._goal = (self._goal + 1) % len(GOALS)
        others = ", ".join(goal.name for goal in GOALS if goal is not self.goal)
        return f"to the next and the previous {self.goal.name} (others: {others})"

    def set_mark(self) -> str:
        tape = self.tape
        self.mark = self.here(tape)
        at = moment(tape, self.mark)
        return f"marked {_dated(at.state)}" if at is not None else "marked"

    def to_mark(self) -> str:
        tape = self.tape
        return self._look(tape, self._marked(tape))

    def compared(self) -> tuple[EngineState, EngineState]:
        """The states at the mark and at what is shown, the earlier first."""
        tape = self.tape
        here, mark = self.here(tape), self._marked(tape)
        if here == mark:
            raise CannotGo("the mark is the moment that is shown: go to another to compare the two")
        earlier, later = (self._moment(tape, place) for place in sorted((here, mark)))
        return earlier.state, later.state

    def back(self) -> str:
        """To the present, or to the end of the recording."""
        if self._feed.replay is None and not self._feed.past:
            raise CannotGo("the screen shows the present already")
        self._feed.to_end(self._now())
        return "the end of the recording" if self._feed.replay is not None else "back in the present"

    # -- how ----------------------------------------------------------------------------------------------------

    def _marked(self, tape: Tape) -> Place:
        if self.mark is None:
            raise CannotGo("no moment is marked")
        if tape.start is not None and self.mark < tape.start:
            raise CannotGo("the marked moment is no longer recorded")
        return self.mark

    def _to(self, tape: Tape, place: Place, *, forward: bool) -> str:
        if place == self.here(tape):
            raise CannotGo("this is the latest frame" if forward else "this is the first frame that is recorded")
        return self._look(tape, place)

    def _to_fact(self, tape: Tape, fact: Fact | None, side: str) -> str:
        if fact is None:
            raise CannotGo(f"no {self.goal.name} is recorded {side} this moment")
        self._look(tape, fact.place)
        return self._told(fact)

    def _told(self, fact: Fact) -> str:
        """In words what happened: the event itself where it is in the frame, else its kind."""
        at, kind = clock(fact.fact.wall), clean(fact.fact.kind, 64)
        for entry in self._feed.shown.events.latest():
            if getattr(entry, "id", None) == fact.fact.event and fact.fact.event is not None:
                return f"{at} {event_sentence(entry)}"
        return f"{at} {kind}"

    def _moment(self, tape: Tape, place: Place) -> Moment:
        found = moment(tape, place, LEAD_S)
        if found is None:
            raise CannotGo("that moment cannot be told: what is recorded of it is damaged")
        return found

    def _look(self, tape: Tape, place: Place) -> str:
        if self._feed.replay is not None:
            self._feed.seek(place, self._now())
            return ""
        found = self._moment(tape, place)
        self._feed.look(found, self._now())
        return found.trouble


def _preempts(entry: LogEntry, request: Preempted) -> bool:
    return isinstance(entry, Event) and entry.kind == "preempt" and entry.request == request.num


def _dated(state: EngineState) -> str:
    return f"{clock(state.wall)}, iteration {state.iteration}"
