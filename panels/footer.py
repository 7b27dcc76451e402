"""One line of keys, those of the focused panel among them."""

from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Actions, footer_actions
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean


def footer_row(everywhere: Actions, local: Actions, width: int) -> Row:
    """As many keys as fit, the most useful first, so that help and quit stay on the narrowest line."""
    builder = RowBuilder()
    for action in footer_actions(everywhere, local):
        text = f"{action.footer_key} {action.footer}"
        if builder.width + len(text) + 2 > width:
            break
        builder.add(" ").add(action.footer_key, Role.KEY).add(f" {action.footer} ", Role.DIM)
    return builder.row(width)


class FooterPanel(CellPanel):
    """``everywhere``: the actions that work whatever has the focus."""

    def __init__(self, everywhere: Actions, *, id: str = "footer", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self._everywhere, self._local = everywhere, everywhere[:0]

    def update(self, local: Actions) -> None:
        """``local``: the actions of what has the focus now."""
        self._local = local
        self.hint("")

    def hint(self, text: str) -> None:
        """Shows ``text`` in place of the keys; the keys again when it is empty."""
        if self.size.width:
            row = RowBuilder().add(f" {clean(text)}", Role.WARN).row(self.size.width) if text else self._keys()
            self.show(self.glyphs.rows([row]))

    def _keys(self) -> Row:
        return footer_row(self._everywhere, self._local, self.size.width)

    def on_resize(self) -> None:
        self.update(self._local)
