"""What pages have in common of whose entries one is chosen: keys that choose, and one that goes there."""

from textual import events
from textual.app import ComposeResult

from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Actions, key_of
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import Role, Row, RowBuilder
from panels.dialogs.pager import TextScreen

BLANK = Row("", b"")


class ChooserScreen(TextScreen):
    """Whoever derives it draws (`reload`) and chooses (`choose`). ``keys`` name a ``jump``; ``goes``: where that leads, in
    words for the foot."""

    def __init__(self, goes: str, *, close_keys: tuple[str, ...], glyphs: Glyphs, keys: Actions, live: bool) -> None:
        super().__init__(close_keys=close_keys, glyphs=glyphs, keys=keys, live=live)
        foot = RowBuilder().add(f"  {key_of(keys, 'down')} {key_of(keys, 'up')}", Role.KEY).add(" choose  ", Role.DIM)
        foot.add(key_of(keys, "jump"), Role.KEY).add(f" {goes}  ", Role.DIM)
        self.foot = foot.add(key_of(keys, "close"), Role.KEY).add(" close", Role.DIM).row()

    def compose(self) -> ComposeResult:
        yield CellPanel(id="page")

    def on_resize(self, _event: events.Resize) -> None:
        self.reload()

    def show(self, rows: list[Row]) -> None:
        """The whole page, heading and foot included."""
        self.query_one("#page", CellPanel).show(self._glyphs.rows(rows))

    @property
    def page(self) -> int:
        """Entries of one page."""
        return max(1, self.app.size.height - 4)

    @property
    def entries(self) -> int:
        """All of them, now."""
        raise NotImplementedError

    def choose(self, by: int) -> None:
        """Another entry, so many further on; as far as there are any."""
        raise NotImplementedError

    def action_down(self) -> None:
        self.choose(1)

    def action_up(self) -> None:
        self.choose(-1)

    def action_page_down(self) -> None:
        self.choose(self.page)

    def action_page_up(self) -> None:
        self.choose(-self.page)

    def action_top(self) -> None:
        self.choose(-self.entries)

    def action_bottom(self) -> None:
        self.choose(self.entries)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.choose(1)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.choose(-1)
