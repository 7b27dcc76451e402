"""The line between two columns."""

from kvtop.term.cell_panel import CellPanel
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, RowBuilder


class DividerPanel(CellPanel):
    def __init__(self, *, id: str = "divider", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs

    def on_resize(self) -> None:
        row = RowBuilder().add("│", Role.BORDER).row()
        self.show(self.glyphs.rows([row] * self.size.height))
