"""The time of a recording: one that only goes forward, whatever the engine's clocks do."""

from math import isfinite

LEAP_S = 1.0
"""Seconds that pass where nobody knows how many did: between two runs, and where reading goes on elsewhere."""


class RecordedClock:
    """Seconds of recorded time, from the dates of frames in their order.

    Of both clocks of the engine the one that has gone on less is believed: one that is set ahead is no time that passed,
    and one that is set back none that was undone.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._before: tuple[float, float] | None = None

    def take(self, mono: float, wall: float) -> float:
        """The time of the next frame, by its dates."""
        self.now = self.would_be(mono, wall)
        self._before = (mono, wall)
        return self.now

    def would_be(self, mono: float, wall: float) -> float:
        """The time of the next frame with these dates."""
        if self._before is None:
            return self.now
        passed = [now - then for now, then in zip((mono, wall), self._before, strict=True)]
        return self.now + min((s for s in passed if isfinite(s) and s >= 0.0), default=0.0)

    def leap(self) -> None:
        """What comes next does not follow what came before."""
        if self._before is not None:
            self.now += LEAP_S
        self._before = None
