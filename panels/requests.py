"""The table of requests: select, sort, filter, look into, abort, preempt, pin."""

from textual import events
from textual.message import Message

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings, scrolling
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.requests import RequestsView, found, move_selection, request_rows, requests_title, row_at
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import TitledPanel

LONGEST_FILTER = 64


class RequestsPanel(TitledPanel):
    """The selection stays on its request wherever the order moves it. `Selected` tells of a new one."""

    ID, NAME, DIGIT = "requests", "requests", 2
    COLUMN = "right"
    ACTIONS = (
        Action("open", ("enter",), "Enter", "block table of the selected request", "table"),
        Action("sort", ("o",), "o", "sort by the next column", "sort"),
        Action("reverse", ("O",), "O", "reverse the order"),
        Action("abort", ("x",), "x", "abort the selected request (asks first)", "abort"),
        Action("preempt", ("X",), "X", "preempt the selected request (asks first)", "preempt"),
        # p is taken everywhere; i and u are letters of pIn and Unpin and lie side by side.
        Action("pin", ("i",), "i", "pin: never evict the selected request's cached blocks (asks first)", "pin"),
        Action("unpin", ("u",), "u", "unpin the selected request's blocks (asks first)", "unpin"),
        Action("clear", ("escape",), "Esc", "clear the filter"),
        *scrolling("request"),
    )
    BINDINGS = bindings(ACTIONS)

    class Selected(Message):
        """Another request is selected; None: none."""

        def __init__(self, num: int | None) -> None:
            super().__init__()
            self.num = num

    class Wanted(Message):
        """The user wants something done with a request: ``open``, ``abort``, ``preempt``, ``pin`` or ``unpin``."""

        def __init__(self, what: str, num: int) -> None:
            super().__init__()
            self.what, self.num = what, num

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.view = RequestsView()
        self.typing = False

    @staticmethod
    def need(room: Room) -> Need:
        return Need(5, room.rest, 3.0) if room.wide else Need(4, room.rest, 6.0)

    def compose_rows(self) -> list[Row]:
        rows = request_rows(self.state, self.view, self.size.width, self.body_height, self.now, self.glyphs)
        if self.typing:
            return self.framed(f"requests: filter {self.view.filter}_", rows, "Enter keep · Esc clear")
        return self.framed(requests_title(self.state, self.view), rows)

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

    # --- the filter ---

    def start_filter(self) -> None:
        self.typing = True
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """While a filter is typed every key belongs to it."""
        if not self.typing:
            return
        event.stop()
        if event.key == "enter":
            self.typing = False
        elif event.key == "escape":
            self.typing, self.view.filter = False, ""
        elif event.key == "backspace":
            self.view.filter = self.view.filter[:-1]
        elif event.character and event.character.isprintable() and len(self.view.filter) < LONGEST_FILTER:
            self.view.filter += event.character
        self.view.offset = 0
        self.draw()

    def watch_has_focus(self, has_focus: bool) -> None:
        self.typing = self.typing and has_focus
        super().watch_has_focus(has_focus)

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
        if rows:
            self.select(rows[0].num)

    def action_top(self) -> None:
        self._go_to(0)

    def action_bottom(self) -> None:
        self._go_to(len(found(self.state, self.view, self.now)) - 1)

    def action_sort(self) -> None:
        self.view.cycle_sort()
        self.draw()

    def action_reverse(self) -> None:
        self.view.flip()
        self.draw()

    def action_clear(self) -> None:
        """The filter first, then the selection."""
        if self.view.filter:
            self.view.filter = ""
        elif self.view.selected is not None:
            self.view.selected = None
            self.post_message(self.Selected(None))
        self.draw()

    def _want(self, what: str) -> None:
        if self.view.selected is None:
            self.notify("select a request first: j and k", severity="warning", markup=False)
        else:
            self.post_message(self.Wanted(what, self.view.selected))

    def action_open(self) -> None:
        if self.view.selected is None:
            self._move(0)
        self._want("open")

    def action_abort(self) -> None:
        self._want("abort")

    def action_preempt(self) -> None:
        self._want("preempt")

    def action_pin(self) -> None:
        self._want("pin")

    def action_unpin(self) -> None:
        self._want("unpin")
