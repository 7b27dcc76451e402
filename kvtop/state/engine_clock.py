"""The engine's two clocks, watched against each other: one that is set, or stood still with its host, is no wait."""

from math import isfinite
from typing import NamedTuple

SMALLEST_S = 2.0
"""Seconds by which the clocks must part at once; below that they are merely set right."""

SLEWED = 0.001
"""Share of the time between two frames by which a clock that is set right little by little may part besides."""

MOST_JUMPS = 8
"""Jumps that are remembered, to move dates from before them."""


class Jump(NamedTuple):
    """Seconds by which each clock jumped at once, back where below 0; 0: it went on. ``at``: the viewer's clock then.

    ``mono`` dates all ages, waits and rates, ``wall`` only the time of day.
    """

    mono: float
    wall: float
    at: float

    @property
    def shown(self) -> str:
        """How far the clock jumped that matters more: ``+3.0 h``."""
        jump = self.mono or self.wall
        for unit, seconds in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
            if abs(jump) >= 2 * seconds:
                return f"{jump / seconds:+.1f} {unit}"
        return f"{jump:+.0f} s"

    @property
    def sentence(self) -> str:
        if self.mono:
            return f"the engine's monotonic clock jumped {self.shown}: rates and latencies begin anew, waits go on as they were"
        return f"the engine's clock jumped {self.shown}: it was set, or its host slept; waits and rates go by another clock"


class EngineClock:
    """Follows the dates of one run's frames.

    Both clocks leaping ahead together are taken for time in which nothing was heard: by dates alone they are the same.
    """

    def __init__(self) -> None:
        self._mono: float | None = None
        self._wall = self._arrived = 0.0
        self._old: list[tuple[float, float]] = []
        """Of the latest jumps of the monotonic clock: what came after it is dated from here on, and the jump."""

    def take(self, mono: float, wall: float, now: float) -> Jump | None:
        """The jump that the dates of a frame show, against those of the one before it; None where there is none."""
        before, jump = self._mono, None
        if before is not None and isfinite(mono) and isfinite(wall):
            jump = self._jump(mono - before, wall - self._wall, now)
            if jump is not None and jump.mono:
                self._old = [*self._old[1 - MOST_JUMPS :], (before + jump.mono, jump.mono)]
        self._mono, self._wall, self._arrived = mono, wall, now
        return jump

    def _jump(self, mono: float, wall: float, now: float) -> Jump | None:
        """``mono``, ``wall``: seconds that each has gone on; ``now``: the viewer's clock."""
        passed = now - self._arrived
        apart = wall - mono
        if abs(apart) < SMALLEST_S + SLEWED * abs(mono):
            # Both stand where they should to each other; a monotonic clock that falls is none.
            return Jump(mono - passed, wall - passed, now) if mono < -SMALLEST_S else None
        if mono < -SMALLEST_S or abs(mono - passed) > abs(wall - passed):
            return Jump(-apart, 0.0, now)
        return Jump(0.0, apart, now)

    def dated(self, mono: float) -> float:
        """A date of the engine by its clock as it goes now: one from before a jump moves with it."""
        for first, jump in self._old:
            if mono < first if jump > 0 else self._mono is not None and mono > self._mono:
                mono += jump
        return mono
