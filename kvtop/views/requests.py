"""The table of requests: sorted, filtered, with a selection that stays on its request wherever that moves."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kvtop.state import EngineState
from kvtop.views.columns import NAMES, SORTED, Columns, columns_for
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import cut, exactly, line
from kvtop.views.format import called, count, short
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.request_filter import EVERYTHING, RequestFilter
from kvtop.views.request_line import RequestLine, moment_of, request_line
from kvtop.views.request_order import Found, RequestOrder
from kvtop.views.rows import Role, Row, RowBuilder

SORTS = ("arrival", *SORTED)


@dataclass
class RequestsView:
    """What the user chose. ``selected`` is a request's num; ``offset`` the first one shown."""

    sort: str = "arrival"
    reverse: bool = False
    filter: RequestFilter = EVERYTHING
    columns: tuple[str, ...] = NAMES
    selected: int | None = None
    offset: int = 0
    order: RequestOrder = field(default_factory=RequestOrder, repr=False, compare=False)
    """The order that these choices make, kept from look to look."""
    drawn: dict[int, RequestLine] = field(default_factory=dict, repr=False, compare=False)
    """The lines that were shown last, by num."""

    def cycle_sort(self, step: int = 1) -> str:
        """Sorts by the next column (``step`` -1: the one before) and returns its name."""
        sorts = ("arrival", *(name for name in self.columns if name in SORTS))
        place = sorts.index(self.sort) + step if self.sort in sorts else 0
        self.sort = sorts[place % len(sorts)]
        return self.sort

    def flip(self) -> None:
        self.reverse = not self.reverse


def found(state: EngineState, view: RequestsView, now: float) -> Found:
    """The requests that pass the filter, sorted; finished ones after all others."""
    return view.order.of(state.requests, view.sort, view.reverse, view.filter, state.mono_now(now))


def request_rows(
    state: EngineState, view: RequestsView, width: int, height: int, now: float, glyphs: Glyphs = UNICODE
) -> list[Row]:
    """A header row, then as many requests as fit from ``view.offset`` on; the selected one highlighted."""
    if state.requests is None:
        return message_rows(not_exposed(state, "requests"), width, height, glyphs)
    columns = columns_for(width, state.requests, view.columns)
    rows = [_header(columns, view, width)]
    those = found(state, view, now)
    if not those:
        said = f"no request matches '{short(view.filter.text, 64)}'" if view.filter else "no requests"
        rows.append(line([(said, Role.DIM)], width))
    mono = state.mono_now(now)
    first = _clamped(view.offset, len(those), height - 1)
    known, view.drawn = view.drawn, {}
    moment = moment_of(columns, mono)
    for row in those.rows(first, height - 1):
        drawn = view.drawn[row.num] = request_line(row, columns, width, mono, row.num == view.selected, known, moment)
        rows.append(drawn.row)
    return glyphs.rows(exactly(rows, width, height))


def _clamped(offset: int, total: int, page: int) -> int:
    return max(0, min(offset, total - max(1, page)))


def _header(columns: Columns, view: RequestsView, width: int) -> Row:
    builder = RowBuilder()
    for column, size in columns:
        chosen = column.name == view.sort
        mark = ("▼" if view.reverse else "▲") if chosen else ""
        title = mark + column.title[: size - len(mark)]
        if builder.width:
            builder.add(" ", Role.TITLE)
        builder.add(title.ljust(size) if column.left else title.rjust(size), Role.ACCENT if chosen else Role.TITLE)
    return cut(builder.row(max(builder.width, width), Role.TITLE), width)


def move_selection(state: EngineState, view: RequestsView, delta: int, height: int, now: float) -> None:
    """Moves the selection by rows and scrolls so that it is seen; selects the first where none was."""
    those = found(state, view, now)
    if not those:
        view.selected, view.offset = None, 0
        return
    place = None if view.selected is None else those.place_of(view.selected)
    place = 0 if place is None else max(0, min(place + delta, len(those) - 1))
    view.selected = those.rows(place, 1)[0].num
    page = max(1, height - 1)
    view.offset = _clamped(max(min(view.offset, place), place - page + 1), len(those), page)


def why_not_in_sight(
    state: EngineState, view: RequestsView, height: int, now: float, key: Callable[[str], str]
) -> str | None:
    """Why a table of ``height`` rows shows no selected request, in a sentence; None where it does.

    ``key``: how the key of one of the table's actions is spelled. Keys act on what one sees selected: not on what the filter hides, or what has ended and moved away.
    """
    those = found(state, view, now)
    if not those:
        if state.requests is None:
            return not_exposed(state, "requests")
        return (
            f"no request matches '{short(view.filter.text, 32)}'; {key('clear')} clears the filter"
            if view.filter
            else "no requests"
        )
    if view.selected is None:
        return f"select a request first: {key('down')} and {key('up')}"
    row = state.request(view.selected)
    if row is None:
        return f"the selected request is gone; {key('down')} and {key('up')} select another"
    place = those.place_of(row.num)
    if place is None:
        return f"the filter '{short(view.filter.text, 24)}' hides the selected request; {key('clear')} clears it"
    first = _clamped(view.offset, len(those), height - 1)
    if not first <= place < first + height - 1:
        why = " when it ended" if row.finished else ""
        return f"{called(row.name, 24)}, selected, moved out of sight{why}; {key('down')} and {key('up')} go back"
    return None


def row_at(state: EngineState, view: RequestsView, y: int, height: int, now: float) -> int | None:
    """The num of the request shown in row ``y`` (0 is the header) of a table of ``height`` rows."""
    those = found(state, view, now)
    place = _clamped(view.offset, len(those), height - 1) + y - 1
    return those.rows(place, 1)[0].num if 0 < y < height and place < len(those) else None


def requests_title(state: EngineState, view: RequestsView) -> str:
    """``requests: 8 running, 5 waiting, 3 done · by wait ▼ · filter 'chat'``."""
    if state.requests is None:
        return "requests"
    states = state.requests.states
    running, done, swapped = states["prefill"] + states["decode"], states["finished"], states["swapped"]
    text = f"requests: {count(running)} running, {count(len(state.requests) - running - done)} waiting"
    text += f" ({count(swapped)} swapped out)" if swapped else ""
    text += f", {count(done)} done"
    text += f" · by {view.sort} {'▼' if view.reverse else '▲'}"
    return f"{text} · filter '{short(view.filter.text, 32)}'" if view.filter else text
