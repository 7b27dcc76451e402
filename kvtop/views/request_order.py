"""The order of the requests table, kept while its choices stand: a frame moves the requests it changed."""

import heapq
from collections.abc import Callable
from typing import NamedTuple

from kvtop.state import RequestRow, RequestTable
from kvtop.state.ranking import Place, Ranking
from kvtop.views.columns import COLUMNS, Column
from kvtop.views.request_filter import EVERYTHING, RequestFilter, keeper, turns

_LIVE, _MOVING, _LIVE_UNKNOWN, _DONE, _DONE_UNKNOWN = range(5)
_LANES = 5
_KNOWN = frozenset({_LIVE, _MOVING, _DONE})

_Place = Callable[[RequestRow], Place]


class Found(NamedTuple):
    """What is in a table of requests, in its order. ``clock``: the engine's, which running times are sorted by."""

    requests: RequestTable | None
    ranking: Ranking
    clock: float

    def __len__(self) -> int:
        return len(self.ranking)

    def __bool__(self) -> bool:
        return len(self.ranking) > 0

    def rows(self, first: int, count: int) -> list[RequestRow]:
        """Those of places ``first … first+count-1``, as many as there are."""
        requests = self.requests
        if requests is None or first < 0:
            return []
        return [requests[num] for num in self.ranking.window(first, count, self.clock)]

    def place_of(self, num: int) -> int | None:
        """From 0; None where it is not among them."""
        return self.ranking.rank(num, self.clock)


class RequestOrder:
    """Finished requests come after all others, and among each of both those whose value is unknown after the rest."""

    def __init__(self) -> None:
        self._all = Ranking(lambda _row: None)
        self._sorted: tuple[str, bool] | None = None
        self._found: Ranking | None = None
        self._passing = _Passing(EVERYTHING)

    def of(
        self, requests: RequestTable | None, sort: str, reverse: bool, chosen: RequestFilter, mono: float | None
    ) -> Found:
        """``requests`` by the column ``sort`` (``arrival``: by their nums) that pass the filter ``chosen``."""
        table, clock = requests if requests is not None else _NONE, mono or 0.0
        if self._sorted != (sort, reverse):
            self._sorted, self._found = (sort, reverse), None
            column = next((column for column in COLUMNS if column.name == sort), None)
            self._all = Ranking(_by_column(column), _LANES, backward=reverse, turned=_KNOWN)
        # The order of all is kept behind every filter: one looks in it for those that pass, and is back in it at once.
        ranking = self._all.follow(table)
        if not chosen:
            self._found = None
        elif self._found is None or not self._passing.goes_on(chosen, clock):
            self._passing = _Passing(chosen, clock)
            self._found = ranking = ranking.part(table, self._passing)
        else:
            turned = self._passing.turned(clock, table)
            ranking = self._found.follow(table)
            ranking.look_again(turned, table)
        return Found(requests, ranking, clock)


class _Passing:
    """Who passes a filter at ``clock``, the engine's, and whom to ask again when, because time alone changes the answer."""

    def __init__(self, chosen: RequestFilter, clock: float = 0.0) -> None:
        self._chosen, self._clock = chosen, clock
        self._keep = keeper(chosen)
        self._turns = turns(chosen) if chosen.moves else None
        self._due: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._more: list[tuple[float, int]] = []
        """What is not in the heap yet: thousands at once when one begins."""

    def __call__(self, row: RequestRow) -> bool:
        if self._turns is not None:
            due = self._turns(row, self._clock)
            if due is None:
                self._due.pop(row.num, None)
            elif due != self._due.get(row.num):
                self._due[row.num] = due
                self._more.append((due, row.num))
        return self._keep(row, self._clock)

    def goes_on(self, chosen: RequestFilter, clock: float) -> bool:
        """Whether what is known of it still holds: the same filter, and a clock that has not gone back."""
        return chosen == self._chosen and (self._turns is None or clock >= self._clock)

    def turned(self, clock: float, table: RequestTable) -> list[int]:
        """The requests that are to be asked again by ``clock``, which it is from now on."""
        self._clock = clock
        if len(self._more) > len(self._heap):
            self._heap += self._more
            heapq.heapify(self._heap)
        else:
            for one in self._more:
                heapq.heappush(self._heap, one)
        self._more.clear()
        if len(self._heap) > 2 * len(self._due) + 64:
            # Phases that ended before their time came, of requests that may be long forgotten.
            self._due = {num: due for num, due in self._due.items() if num in table}
            self._heap = sorted((due, num) for num, due in self._due.items())
        nums = []
        while self._heap and self._heap[0][0] <= clock:
            due, num = heapq.heappop(self._heap)
            if self._due.get(num) == due:
                del self._due[num]
                nums.append(num)
        return nums


_NONE = RequestTable()


def _by_column(column: Column | None) -> _Place:
    """Where a request stands; by its num where there is no column."""
    if column is None or column.key is None:
        return lambda row: Place(_DONE if row.finished else _LIVE, row.num)
    key, phase = column.key, column.phase

    def place(row: RequestRow) -> Place:
        if phase is not None and (moving := row.behind_clock(phase)) is not None:
            return Place(_MOVING, moving)
        value = key(row, None)
        if value is None:
            return Place(_DONE_UNKNOWN if row.finished else _LIVE_UNKNOWN, 0)
        return Place(_DONE if row.finished else _LIVE, value)

    return place
