"""The table of requests: sorted, filtered, with a selection that stays on its request wherever that moves."""

import re
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from kvtop.state import EngineState, RequestRow
from kvtop.views.columns import COLUMNS, Column, columns_for
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import cut, exactly, line
from kvtop.views.format import count, fixed
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean, highlighted

SORTS = ("arrival", *(column.name for column in COLUMNS))


_NUM = attrgetter("num")
_FIRST = itemgetter(0)
_JOINTS = re.compile("[ /+]")


@dataclass
class RequestsView:
    """What the user chose. ``selected`` is a request's num; ``offset`` the first one shown."""

    sort: str = "arrival"
    reverse: bool = False
    filter: str = ""
    selected: int | None = None
    offset: int = 0

    def cycle_sort(self, step: int = 1) -> str:
        """Sorts by the next column (``step`` -1: the one before) and returns its name."""
        self.sort = SORTS[(SORTS.index(self.sort) + step) % len(SORTS)]
        return self.sort

    def flip(self) -> None:
        self.reverse = not self.reverse


def _matches(row: RequestRow, text: str) -> bool:
    return any(text in value.lower() for value in (row.name, row.label, row.state) if value)


def ordered(state: EngineState, view: RequestsView, now: float) -> list[RequestRow]:
    """Rows that match the filter (in id, label or state), sorted; finished ones after all others."""
    text = view.filter.strip().lower()
    rows = list((state.requests or {}).values())
    if text:
        rows = [row for row in rows if _matches(row, text)]
    rows.sort(key=_NUM)
    column = _sort_column(view.sort)
    if column is None:
        rows = rows[::-1] if view.reverse else rows
    else:
        rows = _by_column(rows, column, view.reverse, state.mono_now(now))
    live = [row for row in rows if row.state != "finished"]
    return live if len(live) == len(rows) else live + [row for row in rows if row.state == "finished"]


def _by_column(rows: list[RequestRow], column: Column, reverse: bool, mono: float | None) -> list[RequestRow]:
    """Stable, so that equals keep the order of their nums; what is unknown comes last either way."""
    keyed = [(column.key(row, mono), row) for row in rows]
    known = [item for item in keyed if item[0] is not None]
    known.sort(key=_FIRST, reverse=reverse)
    return [row for _, row in known] + [row for value, row in keyed if value is None]


def _sort_column(name: str) -> Column | None:
    """The column to sort by; None for the order of arrival, which is that of the nums."""
    return next((column for column in COLUMNS if column.name == name), None)


def request_rows(
    state: EngineState, view: RequestsView, width: int, height: int, now: float, glyphs: Glyphs = UNICODE
) -> list[Row]:
    """A header row, then as many requests as fit from ``view.offset`` on; the selected one highlighted."""
    if state.requests is None:
        return message_rows(not_exposed(state, "requests"), width, height, glyphs)
    columns = columns_for(width, state.requests.values())
    rows = [_header(columns, view, width)]
    found = ordered(state, view, now)
    if not found:
        said = f"no request matches '{clean(view.filter, 64)}'" if view.filter else "no requests"
        rows.append(line([(said, Role.DIM)], width))
    mono = state.mono_now(now)
    first = _clamped(view.offset, len(found), height - 1)
    rows += [_row(row, columns, width, mono, view.selected) for row in found[first : first + max(0, height - 1)]]
    return glyphs.rows(exactly(rows, width, height))


def _clamped(offset: int, total: int, page: int) -> int:
    return max(0, min(offset, total - max(1, page)))


def _header(columns: list[tuple[Column, int]], view: RequestsView, width: int) -> Row:
    builder = RowBuilder()
    for column, size in columns:
        chosen = column.name == view.sort
        mark = ("▼" if view.reverse else "▲") if chosen else ""
        title = mark + column.title[: size - len(mark)]
        if builder.width:
            builder.add(" ", Role.TITLE)
        builder.add(title.ljust(size) if column.left else title.rjust(size), Role.ACCENT if chosen else Role.TITLE)
    return cut(builder.row(max(builder.width, width), Role.TITLE), width)


def _row(
    row: RequestRow, columns: list[tuple[Column, int]], width: int, mono: float | None, selected: int | None
) -> Row:
    builder = RowBuilder()
    for column, size in columns:
        text, role = column.cell(row, mono)
        if builder.width:
            builder.add(" ")
        if row.finished:
            role = Role.DIM
        elif row.num == selected and role >= Role.FREE:
            # Colours of the map are made for cells; under the selection's bar they would be hard to read.
            role = Role.STRONG
        if not column.left and len(text) > size:
            # Rather its first number whole than two of them cut.
            text = _JOINTS.split(text)[0]
        builder.add(fixed(text, size) if column.left else text[:size].rjust(size), role)
    drawn = cut(builder.row(max(builder.width, width)), width)
    return highlighted(drawn) if row.num == selected else drawn


def move_selection(state: EngineState, view: RequestsView, delta: int, height: int, now: float) -> None:
    """Moves the selection by rows and scrolls so that it is seen; selects the first where none was."""
    found = ordered(state, view, now)
    if not found:
        view.selected, view.offset = None, 0
        return
    place = next((place for place, row in enumerate(found) if row.num == view.selected), None)
    place = 0 if place is None else max(0, min(place + delta, len(found) - 1))
    view.selected = found[place].num
    page = max(1, height - 1)
    view.offset = _clamped(max(min(view.offset, place), place - page + 1), len(found), page)


def row_at(state: EngineState, view: RequestsView, y: int, height: int, now: float) -> int | None:
    """The num of the request shown in row ``y`` (0 is the header) of a table of ``height`` rows."""
    found = ordered(state, view, now)
    place = _clamped(view.offset, len(found), height - 1) + y - 1
    return found[place].num if 0 < y < height and place < len(found) else None


def requests_title(state: EngineState, view: RequestsView) -> str:
    """``requests: 8 running, 5 waiting, 3 done · by wait ▼ · filter 'chat'``."""
    if state.requests is None:
        return "requests"
    states = [row.state for row in state.requests.values()]
    running = sum(s in ("prefill", "decode") for s in states)
    done, swapped = states.count("finished"), states.count("swapped")
    text = f"requests: {count(running)} running, {count(len(states) - running - done)} waiting"
    text += f" ({count(swapped)} swapped out)" if swapped else ""
    text += f", {count(done)} done"
    text += f" · by {view.sort} {'▼' if view.reverse else '▲'}"
    return f"{text} · filter '{clean(view.filter, 32)}'" if view.filter else text
