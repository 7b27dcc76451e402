"""The scheduler at work; it has a place of its own on the largest screens, and fills any other."""

from kvtop.state import EngineState
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import SCHEDULER
from kvtop.views.rows import Row
from kvtop.views.scheduler import scheduler_rows, scheduler_title
from panels.layout import Need, Room
from panels.panel import Tick, TitledPanel

FROM_HEIGHT = 48
"""Rows of a wide terminal from which on it stands beside the others."""


class SchedulerPanel(TitledPanel):
    """Batches by iteration, where time goes, refusals, loops."""

    ID, NAME, DIGIT = "scheduler", "scheduler", 6
    NUMBERS = SCHEDULER

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self._second: tuple[object, ...] = ()

    def update(self, tick: Tick) -> None:
        """Beside other panels it is drawn once a second: columns that scroll are read in peace, and cost the most."""
        second = (tick.state.history, tick.state.trend_end(tick.now), tick.state.link.up, tick.held is None)
        if self.full or self._second != second or not tick.state.history.edge:
            self._second = second
            super().update(tick)

    @staticmethod
    def need(room: Room) -> Need | None:
        return Need(9, 11, 1.0) if room.wide and room.height >= FROM_HEIGHT else None

    def compose_rows(self) -> list[Row]:
        rows = scheduler_rows(self.state, self.size.width, self.body_height, self.now, self.glyphs)
        return self.framed(scheduler_title(self.state), rows)
