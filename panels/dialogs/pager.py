"""A screen of its own for text longer than the terminal: the help, a block table."""

from collections.abc import Callable
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Action, Actions, bindings, key_of, scrolling
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder
from panels.panel import title_row

_BLANK = Row("", b"")


class Page(NamedTuple):
    """``rows`` to show, of a text of ``total`` lines of which ``fixed`` more rows stay on top of every page."""

    rows: list[Row]
    total: int
    fixed: int = 0


Content = Callable[[int, int, int], Page]
"""``(width, first line, height)`` -> the page."""


PAGER = "help and tables"
PAGER_ACTIONS = (
    Action("close", ("q", "escape"), "q Esc", "close it, as does the key that opened it"),
    Action("page_down", ("pagedown", "ctrl+f", "space"), "PgDn ctrl+f Space", "one page down"),
    *(action for action in scrolling("line") if action.name != "page_down"),
)


_SCROLL = ("down", "up", "page_down", "page_up", "top", "bottom")


def keys_row(keys: Actions) -> Row:
    """The foot of the screen: how one scrolls and closes it."""
    scroll = " ".join(key_of(keys, name) for name in _SCROLL)
    foot = RowBuilder().add(f"  {scroll}", Role.KEY).add(" scroll  ", Role.DIM)
    return foot.add(key_of(keys, "close"), Role.KEY).add(" close", Role.DIM).row()


class TextScreen(Screen[None]):
    """A text over the whole terminal, with its ``keys``. ``close_keys``: further ones that close it. A ``live`` one shows what
    goes on, and is to be told to `reload`."""

    BINDINGS = bindings(PAGER_ACTIONS, PAGER)

    def __init__(
        self, *, close_keys: tuple[str, ...], glyphs: Glyphs, keys: Actions = PAGER_ACTIONS, live: bool = False
    ) -> None:
        super().__init__(classes="pager")
        self.live = live
        self.foot = keys_row(keys)
        self._close_keys, self._glyphs = close_keys, glyphs

    def on_key(self, event: events.Key) -> None:
        if event.key in self._close_keys:
            event.stop()
            self.dismiss()

    def action_close(self) -> None:
        self.dismiss()

    def reload(self) -> None:
        """Draws it anew from what there is to see now."""


class PagerScreen(TextScreen):
    """Long texts of which only one page is made at a time."""

    def __init__(
        self,
        title: str,
        content: Content,
        *,
        close_keys: tuple[str, ...] = (),
        live: bool = False,
        glyphs: Glyphs = UNICODE,
        keys: Actions = PAGER_ACTIONS,
    ) -> None:
        super().__init__(close_keys=close_keys, glyphs=glyphs, keys=keys, live=live)
        self._heading, self._content = title, content
        self._first = 0
        self._total = 0
        self._height = 1

    def compose(self) -> ComposeResult:
        yield CellPanel(id="page")

    def on_resize(self, _event: events.Resize) -> None:
        self.reload()

    def action_down(self) -> None:
        self._scroll(1)

    def action_up(self) -> None:
        self._scroll(-1)

    def action_page_down(self) -> None:
        self._scroll(max(1, self._height - 1))

    def action_page_up(self) -> None:
        self._scroll(-max(1, self._height - 1))

    def action_top(self) -> None:
        self._scroll(-self._total)

    def action_bottom(self) -> None:
        self._scroll(self._total)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self._scroll(-3)

    def _scroll(self, step: int) -> None:
        self._first = max(0, min(self._first + step, self._total - self._height))
        self.reload()

    def reload(self) -> None:
        """Asks for the present page and draws it."""
        width, height = self.app.size
        if width < 20 or height < 4:
            return
        shown = self._content(width - 4, self._first, height - 2)
        self._total, self._height = shown.total, height - 2 - shown.fixed
        self._first = max(0, min(self._first, self._total - self._height))
        last = min(self._first + self._height, self._total)
        note = f"{self._first + 1}–{last} of {self._total}" if self._total > self._height else ""
        margin = RowBuilder().to(2).row()
        body = [Row(margin.text + row.text, margin.roles + row.roles) for row in shown.rows[: height - 2]]
        body += [_BLANK] * (height - 2 - len(body))
        rows = [title_row(self._heading, width, False, note=note), *body, self.foot]
        self.query_one("#page", CellPanel).show(self._glyphs.rows(rows))
