"""How many frames a second the screen may draw, given how the terminal and the machine keep up."""

from typing import Final

LADDER: Final = (15.0, 10.0, 5.0, 2.0)
"""Frames a second, best first. Above fifteen nobody sees more, and whoever shares the machine with the engine pays for it."""

BACKLOG_LIMIT: Final = 2
"""Frames that may wait for the terminal."""

COST_LIMIT: Final = 0.5
"""Share of the period that a frame may cost."""

COSTLY_FRAMES: Final = 3
"""Frames in a row over `COST_LIMIT` before it counts: one pause of the collector is not a slow machine."""

SETTLE: Final = 0.5
"""Seconds after a step down in which no further one is taken: frames already queued belong to the old rate."""

CALM: Final = 5.0
"""Seconds of keeping up before a step up is tried; doubled, up to `CALM_MOST`, each time the try fails at once."""

CALM_MOST: Final = 60.0


class Governor:
    """Steps the frame rate down when the terminal or the machine falls behind, and slowly up again.

    Pure: told what happened and when (seconds of one monotonic clock), it answers with a rate and its reason.
    """

    def __init__(self, ladder: tuple[float, ...] = LADDER) -> None:
        self._ladder = ladder
        self._step = 0
        self._reason = ""
        self._costly = 0
        self._stepped_down = float("-inf")
        self._stepped_up = float("-inf")
        self._calm_since: float | None = None
        self._calm = CALM

    @property
    def fps(self) -> float:
        """Frames a second that may be drawn."""
        return self._ladder[self._step]

    @property
    def slowed(self) -> bool:
        return self._step > 0

    @property
    def reason(self) -> str:
        """Why the rate is below the best: ``slow terminal``, ``busy machine``, or empty."""
        return self._reason if self.slowed else ""

    @property
    def label(self) -> str:
        """For a header: ``slow terminal 5 fps``, or empty."""
        return f"{self._reason} {self.fps:g} fps" if self.slowed else ""

    def observe(self, now: float, *, backlog: int, cost: float) -> None:
        """Takes in one frame.

        Args:
            now: When, in seconds.
            backlog: Frames waiting for the terminal.
            cost: Seconds of CPU the frame took.
        """
        behind = backlog > BACKLOG_LIMIT
        self._costly = self._costly + 1 if cost > COST_LIMIT / self.fps else 0
        if behind or self._costly >= COSTLY_FRAMES:
            self._calm_since = None
            if now - self._stepped_down >= SETTLE and self._step < len(self._ladder) - 1:
                self._down(now, "slow terminal" if behind else "busy machine")
        elif backlog == 0 and self._costly == 0 and self._step:
            self._rest(now)

    def _down(self, now: float, reason: str) -> None:
        failed_try = now - self._stepped_up < CALM
        self._calm = min(self._calm * 2, CALM_MOST) if failed_try else CALM
        self._step += 1
        self._reason = reason
        self._costly = 0
        self._stepped_down = now

    def _rest(self, now: float) -> None:
        if self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= self._calm:
            self._step -= 1
            self._stepped_up = now
            self._calm_since = None
