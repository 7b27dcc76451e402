"""A screen of its own for text longer than the terminal: the help, a block table."""

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from kvtop.term.panel import CellPanel
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder
from panels.panel import title_row

_BLANK = Row("", b"")


class PagerScreen(Screen[None]):
    """``content(width)`` gives all rows; the keys scroll, ``q``, ``Esc`` or ``close_keys`` close it."""

    def __init__(
        self,
        title: str,
        content: Callable[[int], list[Row]],
        *,
        close_keys: tuple[str, ...] = (),
        glyphs: Glyphs = UNICODE,
    ) -> None:
        super().__init__(classes="pager")
        self._heading, self._content, self._close, self._glyphs = title, content, ("q", "escape", *close_keys), glyphs
        self._top = 0
        self._rows: list[Row] = []

    def compose(self) -> ComposeResult:
        yield CellPanel(id="page")

    def on_resize(self, _event: events.Resize) -> None:
        self.reload()

    def reload(self) -> None:
        """Asks for the content anew and draws it."""
        self._rows = self._content(max(20, self.app.size.width - 4))
        self._draw()

    @property
    def _page(self) -> int:
        return max(1, self.app.size.height - 2)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in self._close:
            self.dismiss()
            return
        last = len(self._rows) - self._page
        step = {
            "j": 1,
            "down": 1,
            "k": -1,
            "up": -1,
            "pagedown": self._page,
            "ctrl+f": self._page,
            "space": self._page,
            "pageup": -self._page,
            "ctrl+b": -self._page,
            "g": -len(self._rows),
            "home": -len(self._rows),
            "G": len(self._rows),
            "end": len(self._rows),
        }.get(event.key, 0)
        self._top = max(0, min(self._top + step, last))
        self._draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._top = max(0, min(self._top + 3, len(self._rows) - self._page))
        self._draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._top = max(0, self._top - 3)
        self._draw()

    def _draw(self) -> None:
        width = self.app.size.width
        self._top = max(0, min(self._top, len(self._rows) - self._page))
        shown = self._rows[self._top : self._top + self._page]
        seen = self._top + len(shown)
        note = f"{self._top + 1}–{seen} of {len(self._rows)}" if len(self._rows) > self._page else ""
        margin = RowBuilder().to(2).row()
        body = [Row(margin.text + row.text, margin.roles + row.roles) for row in shown]
        body += [_BLANK] * (self._page - len(body))
        keys = (
            RowBuilder()
            .add("  j k PgDn PgUp g G", Role.KEY)
            .add(" scroll  ", Role.DIM)
            .add("q", Role.KEY)
            .add(" close", Role.DIM)
        )
        rows = [title_row(self._heading, width, False, note=note), *body, keys.row()]
        self.query_one("#page", CellPanel).show(self._glyphs.rows(rows))
