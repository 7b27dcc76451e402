"""The table of requests: select, sort, filter, look into, abort, preempt, pin."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings, scrolling
from kvtop.views.columns import columns_for
from kvtop.views.exposure import not_exposed
from kvtop.views.filter_line import hint_row, mistake_row
from kvtop.views.format import short
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import REQUESTS
from kvtop.views.request_detail import request_detail_rows
from kvtop.views.request_filter import EVERYTHING, FilterError, parse, while_typed
from kvtop.views.requests import (
    RequestsView,
    found,
    move_selection,
    request_rows,
    requests_title,
    row_at,
    why_not_in_sight,
)
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import LeaveFull, TitledPanel
from panels.text_input import TextInput

LONGEST_FILTER = 256
DETAIL_ROWS = 5
"""Of the selected request, where the panel fills the screen."""

_FILTER_TITLE = "requests: filter"
_FILTER_AT = 20
"""The column in which the field begins."""


class FilterInput(TextInput):
    """The field over the panel's title, there while a filter is typed. Enter keeps the filter, Esc clears it."""

    DEFAULT_CSS = f"""
    FilterInput {{ position: absolute; display: none; offset: {_FILTER_AT} 0; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "drop", show=False)]

    def __init__(self) -> None:
        super().__init__(id="filter", longest=LONGEST_FILTER)

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Submitted(self, ""))


class RequestsPanel(TitledPanel):
    """The selection stays on its request wherever the order moves it. `Selected` tells of a new one."""

    ID, NAME, DIGIT = "requests", "requests", 2
    NUMBERS = REQUESTS
    COLUMN = "right"
    ACTIONS = (
        Action(
            "open", ("enter",), "Enter", "the selected request: life, prefix relatives, events, block table", "detail"
        ),
        Action("sort", ("o",), "o", "sort by the next column", "sort"),
        Action("reverse", ("O",), "O", "reverse the order"),
        Action("abort", ("x",), "x", "abort the selected request (asks first)", "abort"),
        Action("preempt", ("X",), "X", "preempt the selected request (asks first)", "preempt"),
        # p is taken everywhere; I and u are letters of pIn and Unpin and lie side by side.
        Action("pin", ("I",), "I", "pin: never evict the selected request's cached blocks (asks first)", "pin"),
        Action("unpin", ("u",), "u", "unpin the selected request's blocks (asks first)", "unpin"),
        Action("columns", ("w",), "w", "which columns there are, and in which order", "columns"),
        Action("clear", ("escape",), "Esc", "clear the filter"),
        *scrolling("request"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    class Selected(Message):
        """Another request is selected; None: none."""

        def __init__(self, num: int | None) -> None:
            super().__init__()
            self.num = num

    class Wanted(Message):
        """The user wants something done with a request: ``open``, ``abort``, ``preempt``, ``pin`` or ``unpin``."""

        def __init__(self, what: str, num: int, run: str | None) -> None:
            """``run``: of the engine, in which the request has that number."""
            super().__init__()
            self.what, self.num, self.run = what, num, run

    class ColumnsWanted(Message):
        """The user wants to choose columns."""

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.view = RequestsView()
        self.filter = FilterInput()
        self._mistake: FilterError | None = None
        """What is wrong with the text in the field; the filter is the last one that was none."""

    @staticmethod
    def need(room: Room) -> Need:
        return Need(5, room.rest, 3.0) if room.wide else Need(4, room.rest, 6.0)

    @property
    def table_height(self) -> int:
        """Rows of the table, its column titles included; where the panel fills the screen, all is told of one below it."""
        return max(1, self.body_height - DETAIL_ROWS) if self.full else self.body_height

    def compose_rows(self) -> list[Row]:
        width, height = self.size.width, self.table_height
        if self.filter.display:
            rows = request_rows(self.state, self.view, width, max(0, height - 1), self.now, self.glyphs)
            rows = [*self.glyphs.rows([self._filter_row(width)]), *rows]
            return self.framed(_FILTER_TITLE, [*rows, *self._detail_rows(width)])
        rows = request_rows(self.state, self.view, width, height, self.now, self.glyphs)
        rows += self._detail_rows(width)
        return self.framed(requests_title(self.state, self.view), rows)

    def _detail_rows(self, width: int) -> list[Row]:
        """All of the selected request, where the panel fills the screen."""
        if not self.full:
            return []
        selected = self.view.selected
        row = None if selected is None else self.state.request(selected)
        return request_detail_rows(self.state, row, width, DETAIL_ROWS, self.now, self.glyphs)

    def _filter_row(self, width: int) -> Row:
        field, mistake = self.filter, self._mistake
        if mistake is None:
            return hint_row(field.value, field.cursor_position, width)
        column = _FILTER_AT + cell_len(field.value[: mistake.at]) - field.scroll_offset.x
        return mistake_row(mistake, column, self.view.filter, width)

    def begin_run(self) -> None:
        self.view.selected, self.view.offset = None, 0

    def select(self, num: int) -> None:
        """Selects a request by its num and scrolls to it."""
        self.view.selected = num
        self._move(0)

    def _move(self, by: int) -> None:
        before = self.view.selected
        move_selection(self.state, self.view, by, self.table_height, self.now)
        self.draw()
        if self.view.selected != before or by == 0:
            self.post_message(self.Selected(self.view.selected))
        else:
            self.hint(self._end_reached(by))

    def _end_reached(self, by: int) -> str:
        if self.view.selected is None:
            return why_not_in_sight(self.state, self.view, self.table_height, self.now, self.key) or ""
        return f"this is the {'last' if by > 0 else 'first'} request"

    # --- the filter ---

    def compose(self) -> ComposeResult:
        yield self.filter

    def start_filter(self) -> None:
        self._mistake = None
        self.filter.value = self.view.filter.text
        self.filter.cursor_position = len(self.filter.value)
        self.filter.display = True
        self.screen.set_focus(self.filter)
        self.hint("Enter keeps the filter · Esc clears it")
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.filter.display:
            self._take_filter(event.value)
            self.draw()

    def _take_filter(self, text: str, complete: bool = False) -> None:
        """Puts what is in the field in force, as far as it is a filter; ``complete``: nothing more is typed."""
        before = self.view.filter
        try:
            self.view.filter, self._mistake = (parse(text), None) if complete else while_typed(text, before)
        except FilterError as mistake:
            self._mistake = mistake
        if self.view.filter != before:
            self.view.offset = 0

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What is no filter stays in the field, until it is put right or cleared."""
        event.stop()
        self._take_filter(event.value, complete=True)
        if self._mistake is None:
            self.screen.set_focus(self)
        else:
            self.hint(f"this is no filter yet: {self._mistake.message}")
            self.draw()

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """The filter stays, however one leaves the field."""
        self.filter.display = False
        self._take_filter(self.filter.value, complete=True)
        if self._mistake is not None:
            kept = f"'{short(self.view.filter.text, 32)}' stays in force" if self.view.filter else "none is in force"
            self.hint(f"what was typed is no filter; {kept}")
        self.draw()

    def on_click(self, event: events.Click) -> None:
        num = row_at(self.state, self.view, event.y - 1, self.table_height, self.now)
        if num is not None:
            self.select(num)

    def copied(self) -> tuple[str, Sequence[str]]:
        """The id of the request that one sees selected."""
        if why_not_in_sight(self.state, self.view, self.body_height, self.now, self.key) is None:
            assert self.view.selected is not None
            row = self.state.request(self.view.selected)
            if row is not None and row.id:
                return "the request's id", [row.id]
        return super().copied()

    # --- keys ---

    def action_down(self) -> None:
        self._move(1)

    def action_up(self) -> None:
        self._move(-1)

    def action_page_down(self) -> None:
        self._move(max(1, self.table_height - 2))

    def action_page_up(self) -> None:
        self._move(-max(1, self.table_height - 2))

    def _go_to(self, place: int) -> None:
        rows = found(self.state, self.view, self.now).rows(place, 1)
        if not rows or rows[0].num == self.view.selected:
            self.hint(self._end_reached(place))
        if rows:
            self.select(rows[0].num)

    def action_top(self) -> None:
        self._go_to(0)

    def action_bottom(self) -> None:
        self._go_to(len(found(self.state, self.view, self.now)) - 1)

    def action_sort(self) -> None:
        self.view.cycle_sort()
        self._reordered()

    def action_reverse(self) -> None:
        self.view.flip()
        self._reordered()

    def action_columns(self) -> None:
        self.post_message(self.ColumnsWanted())

    def take_columns(self, chosen: tuple[str, ...]) -> set[str]:
        """Shows these columns; returns which of them there is room for. Those of samples and beams wait for some."""
        self.view.columns = chosen
        self.draw()
        fitting = {column.name for column, _ in columns_for(self.size.width, self.state.requests, chosen)}
        return fitting | {"sample", "score"}

    def _reordered(self) -> None:
        if self.state.requests is None:
            self.hint(not_exposed(self.state, "requests"))
        self.draw()

    def action_clear(self) -> None:
        """The filter first, then the selection."""
        if self.view.filter:
            self.view.filter = EVERYTHING
        elif self.view.selected is not None:
            self.view.selected = None
            self.hint("nothing is selected any more")
            self.post_message(self.Selected(None))
        elif self.full:
            self.post_message(LeaveFull())
        else:
            self.hint("there is no filter to clear, and nothing is selected")
        self.draw()

    def _want(self, what: str) -> None:
        """Wants it for the request that one sees selected, and for no other."""
        reason = why_not_in_sight(self.state, self.view, self.table_height, self.now, self.key)
        if reason is not None:
            self.notify(reason, severity="warning", markup=False)
        elif self.view.selected is not None:
            self.post_message(self.Wanted(what, self.view.selected, self.state.run))

    def action_open(self) -> None:
        self._want("open")

    def action_abort(self) -> None:
        self._want("abort")

    def action_preempt(self) -> None:
        self._want("preempt")

    def action_pin(self) -> None:
        self._want("pin")

    def action_unpin(self) -> None:
        self._want("unpin")
