"""The scheduler at work; it has a place of its own on the largest screens, and fills any other."""

from kvtop.state import EngineState
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import SCHEDULER
from kvtop.views.rows import Row
from kvtop.views.scheduler import Loop, loops, plot_height, plot_rows, scheduler_rows, scheduler_title
from panels.layout import Need, Room
from panels.panel import TitledPanel

FROM_HEIGHT = 48
"""Rows of a wide terminal from which on it stands beside the others."""


class SchedulerPanel(TitledPanel):
    """Batches by iteration, where time goes, refusals, loops."""

    ID, NAME, DIGIT = "scheduler", "scheduler", 6
    NUMBERS = SCHEDULER

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self._second: tuple[object, ...] = ()
        self._looping: list[Loop] = []
        self._plot: list[Row] | None = None

    @staticmethod
    def need(room: Room) -> Need | None:
        return Need(9, 11, 1.0) if room.wide and room.height >= FROM_HEIGHT else None

    def compose_rows(self) -> list[Row]:
        """Beside other panels its columns move once a second: so they are read in peace, and they cost the most."""
        state, width, height = self.state, self.size.width, self.body_height
        second = (state.history, state.trend_end(self.now), width, height)
        if self._second != second:
            self._second, self._plot = second, None
            self._looping = loops(state, self.now)
        if self._plot is None or self.full:
            self._plot = plot_rows(state, width, plot_height(height), self.glyphs)
        rows = scheduler_rows(state, width, height, self.now, self.glyphs, looping=self._looping, plot=self._plot)
        return self.framed(scheduler_title(state), rows)
