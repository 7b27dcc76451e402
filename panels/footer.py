"""One line of keys, those of the focused panel among them."""

from kvtop.term.keys import Where, footer_actions
from kvtop.term.panel import CellPanel
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder


def footer_row(where: Where, width: int) -> Row:
    """As many keys as fit, the most useful first, so that help and quit stay on the narrowest line."""
    builder = RowBuilder()
    for action in footer_actions(where):
        text = f"{action.footer_key} {action.footer}"
        if builder.width + len(text) + 2 > width:
            break
        builder.add(" ").add(action.footer_key, Role.KEY).add(f" {action.footer} ", Role.DIM)
    return builder.row(width)


class FooterPanel(CellPanel):
    def __init__(self, *, id: str = "footer", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self.where = Where.APP

    def update(self, where: Where) -> None:
        self.where = where
        if self.size.width:
            self.show(self.glyphs.rows([footer_row(where, self.size.width)]))

    def on_resize(self) -> None:
        self.update(self.where)
