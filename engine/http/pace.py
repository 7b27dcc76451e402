"""When a client that is refused for want of room may come again: when those before it will have been answered, as far as the
answers that ended lately tell."""

import math
from collections import deque

WINDOW = 30.0
"""Seconds that count as lately; what ended before says nothing of an engine that is paused, or has other work by now."""

MOST_KEPT = 512

LONGEST = 60
"""Seconds that a client is sent away for at most: much can have changed by then."""


class Pace:
    """How fast answers end. Times are monotonic seconds, and rise."""

    def __init__(self) -> None:
        self._ended: deque[float] = deque(maxlen=MOST_KEPT)

    def ended(self, now: float) -> None:
        """An answer has, whether whole or given up."""
        self._ended.append(now)

    def per_second(self, now: float) -> float | None:
        """None where fewer than two have ended lately: one says nothing of the next."""
        while self._ended and self._ended[0] < now - WINDOW:
            self._ended.popleft()
        if len(self._ended) < 2:
            return None
        return (len(self._ended) - 1) / max(now - self._ended[0], 1e-3)


def come_again(before: int, per_second: float | None, otherwise: int) -> int:
    """Whole seconds, from 1 to `LONGEST`, in which ``before`` requests are answered; ``otherwise`` where nobody knows."""
    if per_second is None:
        return otherwise
    return max(1, min(LONGEST, math.ceil(before / per_second)))
