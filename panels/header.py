"""Who is watched, whether it is live, under which policies, how fast."""

from collections.abc import Sequence

from kvtop.alarms import Report
from kvtop.state import EngineState
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.header import header_rows
from kvtop.views.rows import Role, Row, RowBuilder, clean
from panels.panel import Panel, Tick


class HeaderPanel(Panel):
    """The lines above everything else. A warning of the screen's own goes at the right end of the last one.

    ``alarms``: what is wrong, which is told even while the view is held.
    """

    ID = "header"
    COUNTS = True

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.alarms = Report()

    def content_rows(self, state: EngineState) -> int:
        hello, status = state.hello, state.status
        told = (hello is not None and hello.notice) or (status is not None and status.warning) or self.alarms.firing
        return 4 if told else 3

    def update(self, tick: Tick) -> None:
        width, height = self.size
        if not (width and height and self.display):
            return
        rows = header_rows(tick.state, tick.now, width, self.glyphs, held=tick.held, alarms=self.alarms)
        rows = _important(rows, height)
        if tick.warning and len(rows) > 1:
            rows[-1] = _with_note(rows[-1], tick.warning, width)
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
