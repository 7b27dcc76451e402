"""Is memory the limit, and was it? The pool in numbers and as a bar, and how it went."""

from kvtop.state import EngineState
from kvtop.state.history import History
from kvtop.views.capacity import brief_row, capacity_rows, used_span
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from kvtop.views.trends import trend_row
from panels.panel import Panel, Tick


class CapacityPanel(Panel):
    """Rows over the whole width: the bar, the numbers, the trends; with fewer, the bar stands beside the numbers, and at
    last the trends beside what is used."""

    ID = "capacity"

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self._trends: tuple[object, ...] = ()
        self._drawn: Row | None = None

    def update(self, tick: Tick) -> None:
        width, height = self.size
        if not (width and height and self.display):
            return
        state, glyphs = tick.state, self.glyphs
        if height == 1:
            text, role = used_span(state)
            self.show([trend_row(state, width, tick.now, glyphs, before=((f"{text}  ", role),))])
        elif height == 2:
            self.show([brief_row(state, width, glyphs), self._trend_row(state, width, tick.now)])
        else:
            self.show([*capacity_rows(state, width, glyphs), self._trend_row(state, width, tick.now)])

    def _trend_row(self, state: EngineState, width: int, now: float) -> Row:
        """Drawn anew once a second: in between it says the same."""
        drawn_for: tuple[History, int | None, int] = (state.history, state.trend_end(now), width)
        if self._drawn is None or self._trends != drawn_for:
            self._trends, self._drawn = drawn_for, trend_row(state, width, now, self.glyphs)
        return self._drawn
