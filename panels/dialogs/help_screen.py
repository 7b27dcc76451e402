"""The help: a text of some hundred lines, scrolled by keys, by the wheel and by its bar."""

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Actions
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from panels.dialogs.pager import PAGER_ACTIONS, TextScreen
from panels.panel import title_row


class HelpScreen(TextScreen):
    """``text`` makes the rows for a width."""

    DEFAULT_CSS = """
    HelpScreen > CellPanel { height: 1; width: 1fr; }
    HelpScreen VerticalScroll { height: 1fr; width: 1fr; padding: 0 2; scrollbar-size: 1 1; }
    HelpScreen VerticalScroll > CellPanel { width: 1fr; }
    """

    def __init__(
        self,
        text: Callable[[int], list[Row]],
        *,
        close_keys: tuple[str, ...],
        glyphs: Glyphs = UNICODE,
        keys: Actions = PAGER_ACTIONS,
    ) -> None:
        super().__init__(close_keys=close_keys, glyphs=glyphs, keys=keys)
        self._text = text
        self._title, self._page, self._foot = CellPanel(), CellPanel(id="page"), CellPanel()
        self._scroll = VerticalScroll(self._page, can_focus=False)

    def compose(self) -> ComposeResult:
        yield from (self._title, self._scroll, self._foot)

    def on_mount(self) -> None:
        if self._glyphs.plain:
            # A bar is drawn with characters that such a terminal has not.
            self._scroll.styles.scrollbar_size_vertical = 0

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        rows = self._text(max(20, width - 6))
        self._page.styles.height = len(rows)
        self._page.show(self._glyphs.rows(rows))
        self._title.show(self._glyphs.rows([title_row("help", width, False, note=f"{len(rows)} lines")]))
        self._foot.show(self._glyphs.rows([self.foot]))

    def action_down(self) -> None:
        self._scroll.scroll_down(animate=False)

    def action_up(self) -> None:
        self._scroll.scroll_up(animate=False)

    def action_page_down(self) -> None:
        self._scroll.scroll_page_down(animate=False)

    def action_page_up(self) -> None:
        self._scroll.scroll_page_up(animate=False)

    def action_top(self) -> None:
        self._scroll.scroll_home(animate=False)

    def action_bottom(self) -> None:
        self._scroll.scroll_end(animate=False)
