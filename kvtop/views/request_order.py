"""The order of the requests table, kept while its choices stand: a frame moves the requests it changed."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kvtop.state import RequestRow, RequestTable
from kvtop.state.ranking import Place, Ranking
from kvtop.views.columns import COLUMNS, Column

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
        self._text = ""

    def of(self, requests: RequestTable | None, sort: str, reverse: bool, text: str, mono: float | None) -> Found:
        """``requests`` by the column ``sort`` (``arrival``: by their nums) that contain ``text``, however written."""
        text = text.strip().lower()
        table = requests if requests is not None else _NONE
        if self._sorted != (sort, reverse):
            self._sorted, self._found = (sort, reverse), None
            column = next((column for column in COLUMNS if column.name == sort), None)
            self._all = Ranking(_by_column(column), _LANES, backward=reverse, turned=_KNOWN)
        # The order of all is kept behind every filter: one looks in it for the text, and is back in it at once.
        ranking = self._all.follow(table)
        if not text:
            self._found = None
        elif self._found is None or text != self._text:
            self._found = ranking = ranking.part(table, partial(_matches, text))
        else:
            ranking = self._found.follow(table)
        self._text = text
        return Found(requests, ranking, mono or 0.0)


_NONE = RequestTable()


def _matches(text: str, row: RequestRow) -> bool:
    # One search in three texts; the filter is one line, so that it never matches across two of them.
    return text in row.words


def _by_column(column: Column | None) -> _Place:
    """Where a request stands; by its num where there is no column."""
    if column is None:
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
