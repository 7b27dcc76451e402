"""The latest events, bounded so that what happens all the time cannot push out what does not."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import dropwhile, takewhile
from operator import itemgetter

from kvtop.protocol import ROUTINE_EVENTS, Event
from kvtop.state.changes import LogEntry, Marker

_arrival = itemgetter(0)


class EventLog:
    """Entries in the order of their arrival. Routine events (admissions, finishes, evictions) and notable ones, the
    viewer's own marks among them, are bounded apart: the latest ``limit`` of each are kept."""

    def __init__(self, limit: int) -> None:
        self._arrived = 0
        self._last: int | None = None
        """Number of the engine's latest event."""
        self._routine: deque[tuple[int, LogEntry]] = deque(maxlen=limit)
        self._notable: deque[tuple[int, LogEntry]] = deque(maxlen=limit)

    def append(self, entry: LogEntry) -> None:
        self._arrived += 1
        routine = isinstance(entry, Event) and entry.kind in ROUTINE_EVENTS
        (self._routine if routine else self._notable).append((self._arrived, entry))

    def extend(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            self.append(entry)

    def receive(self, events: Iterable[Event], hole_is_known: bool = False) -> list[LogEntry]:
        """Adds those of an engine's ``events`` that it has not seen before, and returns what it added. What is missing from
        their numbers is told by one mark, at the first hole, unless that ``hole_is_known``."""
        last = self._last
        unseen = [event for event in events if last is None or event.id > last]
        if not unseen:
            return []
        new: list[LogEntry] = list(unseen)
        self._last = unseen[-1].id
        # A first keyframe repeats what is worth repeating; what came before it was never ours to receive.
        missing = 0 if last is None or hole_is_known else unseen[-1].id - last - len(unseen)
        if missing > 0:
            assert last is not None
            place = next(i for i, event in enumerate(unseen) if event.id != last + 1 + i)
            after = unseen[place]
            new.insert(
                place, Marker("gap", after.wall, after.iteration, "warn", f"{missing} events were never received")
            )
        self.extend(new)
        return new

    def latest(self, routine: bool = True) -> Iterator[LogEntry]:
        """From the newest back; without the ``routine`` ones if so wanted. Costs what is taken from it."""
        return (entry for _, entry in self.numbered(routine))

    def numbered(self, routine: bool = True, at: int | None = None) -> Iterator[tuple[int, LogEntry]]:
        """The same with the number of each, from the one numbered ``at`` back: 1 is the first that ever arrived."""
        kept = [self._routine, self._notable] if routine else [self._notable]
        runs = [
            reversed(entries) if at is None else dropwhile(lambda numbered: numbered[0] > at, reversed(entries))
            for entries in kept
        ]
        # Two runs that fall: merging looks at the head of each.
        return heapq.merge(*runs, key=_arrival, reverse=True) if routine else iter(runs[0])

    def newer(self, number: int, routine: bool = True) -> int:
        """How many have arrived after the one of that number; of notable ones, as far as they are kept."""
        if routine:
            return max(0, self._arrived - number)
        return sum(1 for _ in takewhile(lambda numbered: numbered[0] > number, reversed(self._notable)))

    def dropped(self, routine: bool = True) -> bool:
        """Whether some are no longer kept."""
        full = len(self._notable) == self._notable.maxlen
        return full or (routine and len(self._routine) == self._routine.maxlen)

    @property
    def notable_count(self) -> int:
        return len(self._notable)

    def __iter__(self) -> Iterator[LogEntry]:
        return (entry for _, entry in heapq.merge(self._routine, self._notable, key=_arrival))

    def __len__(self) -> int:
        return len(self._routine) + len(self._notable)

    def copy(self) -> "EventLog":
        """Another log with the same entries."""
        twin = EventLog(self._routine.maxlen or 0)
        twin._last = self._last
        twin._arrived, twin._routine, twin._notable = self._arrived, self._routine.copy(), self._notable.copy()
        return twin
