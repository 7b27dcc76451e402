"""What all panels with a title have in common: the title rule with its focus mark, and a body below."""

import re
from collections.abc import Sequence

from kvtop.term.panel import CellPanel
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import HIGHLIGHT, Role, Row, RowBuilder

_GAP = re.compile(r" {4,}")


def title_row(title: str, width: int, focused: bool, digit: int | None = None, note: str = "") -> Row:
    """``▸1 requests ──── note``: thin while unfocused; focus shows by mark and reverse, not by colour alone."""
    builder = RowBuilder()
    number = "" if digit is None else f"{digit} "
    if focused:
        builder.add(f"▸{number}{title} ", Role.STRONG | HIGHLIGHT)
    else:
        builder.add("─", Role.BORDER).add(number, Role.KEY).add(f"{title} ", Role.TITLE)
    note = f" {note} " if note else ""
    rule = width - builder.width - len(note) - 1
    if rule < 1:
        note, rule = "", width - builder.width - 1
    return builder.add("─" * max(0, rule), Role.BORDER).add(note, Role.DIM).add("─", Role.BORDER).row(width)


def with_rule(row: Row) -> Row:
    """``row`` with its long gaps drawn as the rule of a title."""
    builder, last = RowBuilder(), 0
    for gap in _GAP.finditer(row.text):
        start, stop = gap.start() + 1, gap.end() - 1
        builder.add(row.text[last:start]).add("─" * (stop - start))
        last = stop
    text = builder.add(row.text[last:]).row().text
    roles = bytes(Role.BORDER if c == "─" else role for c, role in zip(text, row.roles, strict=True))
    return Row(text, roles)


class TitledPanel(CellPanel, can_focus=True):
    """A panel with a title row above ``body_height`` rows. Subclasses say what stands in them."""

    DIGIT: int | None = None

    def __init__(self, *, id: str, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs

    @property
    def body_height(self) -> int:
        return max(0, self.size.height - 1)

    def framed(self, title: str, body: Sequence[Row], note: str = "") -> list[Row]:
        """Title and body, in characters of the glyph set."""
        title_line = title_row(title, self.size.width, self.has_focus, self.DIGIT, note)
        return [*self.glyphs.rows([title_line]), *body]

    def draw(self) -> None:
        """Shows the present state; does nothing while the panel has no place on the screen."""
        if self.size.width and self.size.height and self.display:
            self.show(self.compose_rows())

    def compose_rows(self) -> list[Row]:
        """All rows, the title first."""
        raise NotImplementedError

    def watch_has_focus(self, has_focus: bool) -> None:
        """The mark of the focus follows at once, not at the next tick."""
        super().watch_has_focus(has_focus)
        self.draw()

    def on_resize(self) -> None:
        self.draw()
