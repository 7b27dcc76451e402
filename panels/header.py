"""Who is watched, whether it is live, under which policies, how fast."""

from collections.abc import Sequence

from kvtop.state import EngineState
from kvtop.term.panel import CellPanel
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.header import header_rows
from kvtop.views.rows import Role, Row, RowBuilder, clean


class HeaderPanel(CellPanel):
    """The lines above everything else. A warning of the screen's own goes at the right end of the last one."""

    def __init__(self, *, id: str = "header", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs

    def update(self, state: EngineState, now: float, *, held: float | None = None, warning: str = "") -> None:
        """Draws ``state``; ``held``: seconds the view stands still. ``warning``: the screen is slow, and why."""
        width, height = self.size
        if not (width and height and self.display):
            return
        rows = _important(header_rows(state, now, width, self.glyphs, held=held), height)
        if warning and len(rows) > 1:
            rows[-1] = _with_note(rows[-1], warning, width)
        self.show(rows)


def _important(rows: Sequence[Row], height: int) -> list[Row]:
    """The first rows, and of the others the last (a notice) before those in between."""
    if len(rows) <= height:
        return list(rows)
    return [rows[0], *rows[len(rows) - height + 1 :]] if height > 1 else list(rows[:1])


def _with_note(row: Row, note: str, width: int) -> Row:
    text = f" {clean(note, 40)}"
    kept = max(0, width - len(text))
    start = RowBuilder().add(row.text[:kept]).row()
    return Row(start.text + text, row.roles[:kept] + bytes((Role.WARN,)) * len(text))
