"""When the engine should make a keyframe."""

import math
import threading
import time
from collections.abc import Callable

SPACING = 0.2
"""Seconds between keyframes made on request, so that viewers asking in a loop do not slow the engine down."""


class KeyframeSchedule:
    """Due at the start, every ``every`` seconds, and when a viewer needs one. Safe from any thread."""

    def __init__(self, every: float, attention: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._attention = attention
        self._clock = clock
        self._last: float | None = None
        self._wanted = False

    def want(self) -> None:
        """A viewer cannot go on without one (or asked for a fresh one)."""
        if not self._wanted:
            self._wanted = True
            self._attention.set()

    def done(self) -> None:
        """The engine made one."""
        self._wanted = False
        self._last = self._clock()

    def due(self, asked_only: bool = False) -> bool:
        """``asked_only``: nobody is there who may come without asking."""
        return self.seconds_left(asked_only) <= 0

    def seconds_left(self, asked_only: bool = False) -> float:
        """Seconds until one is due; 0 or less when it is."""
        if self._last is None:
            return 0.0
        every = math.inf if asked_only else self._every
        return self._last + (min(SPACING, every) if self._wanted else every) - self._clock()
