"""The table of requests: select, sort, filter, look into, abort, preempt, pin."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings, scrolling
from kvtop.views.exposure import not_exposed
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import REQUESTS
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
from panels.panel import TitledPanel
from panels.text_input import TextInput

LONGEST_FILTER = 64
_FILTER_TITLE = "requests: filter"


class FilterInput(TextInput):
    """The field over the panel's title, there while a filter is typed. Enter keeps the filter, Esc clears it."""

    DEFAULT_CSS = """
    FilterInput { position: absolute; display: none; offset: 20 0; }
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
        Action("open", ("enter",), "Enter", "block table of the selected request", "table"),
        Action("sort", ("o",), "o", "sort by the next column", "sort"),
        Action("reverse", ("O",), "O", "reverse the order"),
        Action("abort", ("x",), "x", "abort the selected request (asks first)", "abort"),
        Action("preempt", ("X",), "X", "preempt the selected request (asks first)", "preempt"),
        # p is taken everywhere; I and u are letters of pIn and Unpin and lie side by side.
        Action("pin", ("I",), "I", "pin: never evict the selected request's cached blocks (asks first)", "pin"),
        Action("unpin", ("u",), "u", "unpin the selected request's blocks (asks first)", "unpin"),
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

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.view = RequestsView()
        self.filter = FilterInput()

    @staticmethod
    def need(room: Room) -> Need:
        return Need(5, room.rest, 3.0) if room.wide else Need(4, room.rest, 6.0)

    def compose_rows(self) -> list[Row]:
        rows = request_rows(self.state, self.view, self.size.width, self.body_height, self.now, self.glyphs)
        if self.filter.display:
            return self.framed(_FILTER_TITLE, rows)
        return self.framed(requests_title(self.state, self.view), rows)

    def begin_run(self) -> None:
        self.view.selected, self.view.offset = None, 0

    def select(self, num: int) -> None:
        """Selects a request by its num and scrolls to it."""
        self.view.selected = num
        self._move(0)

    def _move(self, by: int) -> None:
        before = self.view.selected
        move_selection(self.state, self.view, by, self.body_height, self.now)
        self.draw()
        if self.view.selected != before or by == 0:
            self.post_message(self.Selected(self.view.selected))
        else:
            self.hint(self._end_reached(by))

    def _end_reached(self, by: int) -> str:
        if self.view.selected is None:
            return why_not_in_sight(self.state, self.view, self.body_height, self.now, self.key) or ""
        return f"this is the {'last' if by > 0 else 'first'} request"

    # --- the filter ---

    def compose(self) -> ComposeResult:
        yield self.filter

    def start_filter(self) -> None:
        self.filter.value = self.view.filter
        self.filter.display = True
        self.screen.set_focus(self.filter)
        self.hint("Enter keeps the filter · Esc clears it")
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.filter.display:
            self.view.filter, self.view.offset = event.value, 0
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.view.filter = event.value
        self.screen.set_focus(self)

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """The filter stays, however one leaves the field."""
        self.filter.display = False
        self.draw()

    def on_click(self, event: events.Click) -> None:
        num = row_at(self.state, self.view, event.y - 1, self.body_height, self.now)
        if num is not None:
            self.select(num)

    # --- keys ---

    def action_down(self) -> None:
        self._move(1)

    def action_up(self) -> None:
        self._move(-1)

    def action_page_down(self) -> None:
        self._move(max(1, self.body_height - 2))

    def action_page_up(self) -> None:
        self._move(-max(1, self.body_height - 2))

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

    def _reordered(self) -> None:
        if self.state.requests is None:
            self.hint(not_exposed(self.state, "requests"))
        self.draw()

    def action_clear(self) -> None:
        """The filter first, then the selection."""
        if self.view.filter:
            self.view.filter = ""
        elif self.view.selected is not None:
            self.view.selected = None
            self.hint("nothing is selected any more")
            self.post_message(self.Selected(None))
        else:
            self.hint("there is no filter to clear, and nothing is selected")
        self.draw()

    def _want(self, what: str) -> None:
        """Wants it for the request that one sees selected, and for no other."""
        reason = why_not_in_sight(self.state, self.view, self.body_height, self.now, self.key)
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
