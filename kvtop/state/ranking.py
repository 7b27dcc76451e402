"""An order of requests that is kept, not made: a change moves the requests it names and looks at no others."""

from bisect import bisect_left, insort
from collections.abc import Callable, ItemsView, Iterable
from typing import Any, NamedTuple, Protocol

from kvtop.state.journal import Journal
from kvtop.state.request_row import RequestRow


class Rows(Protocol):
    """Requests by num, with a journal of their changes (see `kvtop.state.request_table`)."""

    journal: Journal
    version: int

    def __len__(self) -> int: ...

    def get(self, num: int, /) -> RequestRow | None: ...

    def items(self) -> ItemsView[int, RequestRow]: ...


class Place(NamedTuple):
    """Where a request stands. ``lane``: lanes follow one another, those of `Ranking.merged` as one.

    ``key`` orders a lane ascending; equals stand in the order of their nums. In the second merged lane it is what the
    value lies above the clock by, so that values that grow with the clock keep their order by themselves.
    """

    lane: int
    key: Any


_Entry = tuple[Any, int]


class Ranking:
    """Nums of requests in the order that ``place`` gives them; those it gives none are left out.

    ``lanes``: how many there are. The first two are read as one, by value: `Place.key` of the first, and of the second
    what it is at the clock of the question. ``backward``: the first ``turned`` lanes are read from their largest key
    (equals still in the order of their nums).
    """

    def __init__(
        self,
        place: Callable[[RequestRow], Place | None],
        lanes: int = 2,
        *,
        backward: bool = False,
        turned: frozenset[int] = frozenset({0, 1}),
    ) -> None:
        self._place = place
        self._lanes: list[list[_Entry]] = [[] for _ in range(lanes)]
        self._turned = turned if backward else frozenset()
        self._where: dict[int, Place] = {}
        self._journal: Journal | None = None
        self._seen = 0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, num: int) -> bool:
        return num in self._where

    # -- following the table ------------------------------------------------------------------------------------

    def follow(self, table: Rows) -> "Ranking":
        """Takes over what changed since the last call; ``table`` may be a copy held still, earlier or later."""
        changed = None
        if self._journal is table.journal:
            # A copy is older than what its journal tells by now: looking at too many requests does no harm.
            changed = table.journal.since(min(self._seen, table.version))
        if changed is None or 8 * len(changed) > len(table) + 64:
            self._rebuild(table)
        else:
            for num in changed:
                self._put(num, table.get(num))
        self._journal, self._seen = table.journal, table.version
        return self

    def look_again(self, nums: Iterable[int], table: Rows) -> None:
        """At these requests, whose places other things than their changes have moved."""
        for num in nums:
            self._put(num, table.get(num))

    def part(self, table: Rows, keep: Callable[[RequestRow], bool]) -> "Ranking":
        """Another order: of those of these requests alone that ``keep`` takes. ``table``: what was last followed."""
        place, turned = self._place, self._turned
        part = Ranking(lambda row: place(row) if keep(row) else None, len(self._lanes))
        part._turned = turned
        where = self._where
        part._where = kept = {num: where[num] for num, row in table.items() if num in where and keep(row)}
        if 8 * len(kept) < len(where):
            for num, at in kept.items():
                part._lanes[at.lane].append(self._entry(at, num))
            for lane in part._lanes:
                lane.sort()
        else:
            part._lanes = [[entry for entry in lane if abs(entry[1]) in kept] for lane in self._lanes]
        part._journal, part._seen = self._journal, self._seen
        return part

    def _rebuild(self, table: Rows) -> None:
        place = self._place
        self._where = {num: at for num, row in table.items() if (at := place(row)) is not None}
        lanes: list[list[_Entry]] = [[] for _ in self._lanes]
        turned = [-1 if lane in self._turned else 1 for lane in range(len(lanes))]
        for num, (lane, key) in self._where.items():
            lanes[lane].append((key, num * turned[lane]))
        for entries in lanes:
            entries.sort()
        self._lanes = lanes

    def _put(self, num: int, row: RequestRow | None) -> None:
        old = self._where.get(num)
        new = None if row is None else self._place(row)
        if old == new:
            return
        if old is not None:
            lane, entry = self._lanes[old.lane], self._entry(old, num)
            del lane[bisect_left(lane, entry)]
            del self._where[num]
        if new is not None:
            insort(self._lanes[new.lane], self._entry(new, num))
            self._where[num] = new

    def _entry(self, place: Place, num: int) -> _Entry:
        # Read from the end, a lane has its equals in the order of their nums if they are stored the other way round.
        return place.key, -num if place.lane in self._turned else num

    # -- reading ------------------------------------------------------------------------------------------------

    def window(self, first: int, count: int, clock: float = 0.0) -> list[int]:
        """The nums of places ``first … first+count-1``, as many of them as there are. ``clock``: see `Place`."""
        found: list[int] = []
        first, count = max(0, first), max(0, count)
        both = len(self._lanes[0]) + len(self._lanes[1])
        if first < both:
            found = self._of_both(first, min(count, both - first), clock)
        passed = both
        for number, lane in enumerate(self._lanes[2:], 2):
            if len(found) == count:
                break
            start = max(0, first - passed)
            more = min(count - len(found), len(lane) - start)
            if more > 0 and number in self._turned:
                found += [-num for _, num in reversed(lane[len(lane) - start - more : len(lane) - start])]
            elif more > 0:
                found += [num for _, num in lane[start : start + more]]
            passed += len(lane)
        return found

    def rank(self, num: int, clock: float = 0.0) -> int | None:
        """The place of ``num``, from 0; None where it has none."""
        at = self._where.get(num)
        if at is None:
            return None
        entry = self._entry(at, num)
        still, moving = self._lanes[:2]
        both = len(still) + len(moving)
        if at.lane < 2:
            if at.lane == 0:
                place = bisect_left(still, entry) + _below(moving, entry, clock)
            else:
                place = bisect_left(moving, entry) + bisect_left(still, (entry[0] + clock, entry[1]))
            return both - 1 - place if at.lane in self._turned else place
        before = both + sum(len(lane) for lane in self._lanes[2 : at.lane])
        lane = self._lanes[at.lane]
        place = bisect_left(lane, entry)
        return before + (len(lane) - 1 - place if at.lane in self._turned else place)

    def _of_both(self, first: int, count: int, clock: float) -> list[int]:
        still, moving = self._lanes[:2]
        backward = 0 in self._turned
        if backward:
            first = len(still) + len(moving) - first - count
        if not moving:
            found = [num for _, num in still[first : first + count]]
        else:
            found = self._merged(first, count, clock)
        return [-num for num in reversed(found)] if backward else found

    def _merged(self, first: int, count: int, clock: float) -> list[int]:
        still, moving = self._lanes[:2]
        # How many of the moving ones come before place `first`: their places rise, so that halving finds it.
        low, high = 0, len(moving)
        while low < high:
            middle = (low + high) // 2
            key, num = moving[middle]
            if middle + bisect_left(still, (key + clock, num)) < first:
                low = middle + 1
            else:
                high = middle
        i, j = first - low, low
        found: list[int] = []
        while len(found) < count:
            if j == len(moving) or (i < len(still) and still[i] < (moving[j][0] + clock, moving[j][1])):
                found.append(still[i][1])
                i += 1
            else:
                found.append(moving[j][1])
                j += 1
        return found


def _below(moving: list[_Entry], entry: _Entry, clock: float) -> int:
    return bisect_left(moving, entry, key=lambda other: (other[0] + clock, other[1]))
