"""A screen of its own for text longer than the terminal: the help, a block table."""

from collections.abc import Callable
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from kvtop.term.panel import CellPanel
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


def whole_text(text: Callable[[int], list[Row]]) -> Content:
    """Pages of a text that is made at once, anew for each width."""
    made: dict[int, list[Row]] = {}

    def page(width: int, first: int, height: int) -> Page:
        if width not in made:
            made.clear()
            made[width] = text(width)
        rows = made[width]
        first = max(0, min(first, len(rows) - height))
        return Page(rows[first : first + height], len(rows))

    return page


class PagerScreen(Screen[None]):
    """The keys scroll; ``q``, ``Esc`` or ``close_keys`` close it. A ``live`` one is to be told to `reload`."""

    def __init__(
        self,
        title: str,
        content: Content,
        *,
        close_keys: tuple[str, ...] = (),
        live: bool = False,
        glyphs: Glyphs = UNICODE,
    ) -> None:
        super().__init__(classes="pager")
        self._heading, self._content, self._close, self._glyphs = title, content, ("q", "escape", *close_keys), glyphs
        self.live = live
        self._first = 0
        self._total = 0
        self._height = 1

    def compose(self) -> ComposeResult:
        yield CellPanel(id="page")

    def on_resize(self, _event: events.Resize) -> None:
        self.reload()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in self._close:
            self.dismiss()
            return
        page = max(1, self._height - 1)
        step = {
            "j": 1,
            "down": 1,
            "k": -1,
            "up": -1,
            "pagedown": page,
            "ctrl+f": page,
            "space": page,
            "pageup": -page,
            "ctrl+b": -page,
            "g": -self._total,
            "home": -self._total,
            "G": self._total,
            "end": self._total,
        }.get(event.key, 0)
        self._scroll(step)

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
        keys = RowBuilder().add("  j k PgDn PgUp g G", Role.KEY).add(" scroll  ", Role.DIM)
        keys.add("q", Role.KEY).add(" close", Role.DIM)
        rows = [title_row(self._heading, width, False, note=note), *body, keys.row()]
        self.query_one("#page", CellPanel).show(self._glyphs.rows(rows))
