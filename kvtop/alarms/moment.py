"""What a rule looks at: the state, a time of the engine's clock, and what is remembered of the minutes before."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvtop.protocol import Event
from kvtop.state import EngineState, LogEntry, Rates
from kvtop.state.tiers import tier_totals

KEPT_S = 1300.0
"""Seconds of totals that are remembered: the longest window that a threshold may have, and the longest one before it."""

SPACING_S = 1.0

REMEMBERED = ("preempt", "swap_out", "ledger", "watchdog", "prefix_reset")
MOST_EVENTS = 2048
"""Events of each kind that are remembered."""


class Past:
    """Totals and events of the last minutes, dated by the engine's clock. Bounded, whatever an engine sends."""

    def __init__(self) -> None:
        self.totals = Rates(keep=KEPT_S, spacing=SPACING_S)
        self.tiers = Rates(None, keep=KEPT_S, spacing=SPACING_S)
        self._events: dict[str, deque[tuple[float, Event]]] = {kind: deque(maxlen=MOST_EVENTS) for kind in REMEMBERED}

    def clear(self) -> None:
        """The clock by which all this is dated goes no more."""
        self.__init__()  # type: ignore[misc]

    def hear(self, state: EngineState, entries: Iterable[LogEntry]) -> None:
        """News of a frame, dated back by how long before it they happened: a keyframe repeats old ones."""
        for entry in entries:
            if isinstance(entry, Event) and entry.kind in self._events and state.mono is not None:
                ago = 0.0 if state.wall is None else max(0.0, state.wall - entry.wall)
                self._events[entry.kind].append((state.mono - ago, entry))

    def note(self, state: EngineState, mono: float) -> None:
        """The totals as they are at ``mono``."""
        self.totals.add(mono, state.counters)
        if state.tiers:
            self.tiers.add(mono, tier_totals(state.tiers))

    def events(self, kind: str, since: float) -> Iterator[tuple[float, Event]]:
        """Of that kind since then, the latest first."""
        return (dated for dated in reversed(self._events[kind]) if dated[0] >= since)

    def latest(self, kind: str) -> Event | None:
        return self._events[kind][-1][1] if self._events[kind] else None


@dataclass(frozen=True, slots=True)
class Moment:
    """``mono``: the engine's clock, seconds. ``silent_s``: seconds in which nothing has come though something should have."""

    state: EngineState
    mono: float
    past: Past = field(default_factory=Past)
    silent_s: float = 0.0

    def increase(self, name: str, window: float) -> int | None:
        """By how much a total rose in the last ``window`` seconds, or since less is known; None where it is not exposed."""
        found = self.past.totals.increase(name, self.mono, window)
        return None if found is None else found[0]

    def seen(self, window: float) -> float:
        """Of the last ``window`` seconds, those of which totals are known."""
        return self.past.totals.span(self.mono, window) or 0.0

    @property
    def kind(self) -> str:
        return self.state.engine_kind[:32]

    def by_request(self, kind: str, window: float) -> list[tuple[int, Event, int]]:
        """``(times, the latest event, request's num)`` of the events of that ``kind``, who had most of them first; of equals
        whoever is still there."""
        times: Counter[int] = Counter()
        last: dict[int, Event] = {}
        for _, event in self.past.events(kind, self.mono - window):
            if event.request is not None:
                times[event.request] += 1
                last.setdefault(event.request, event)

        def rank(num: int) -> tuple[int, bool, int]:
            row = self.state.request(num)
            return (-times[num], row is None or row.finished, num)

        return [(times[num], last[num], num) for num in sorted(times, key=rank)]
