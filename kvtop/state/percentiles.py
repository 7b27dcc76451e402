"""Percentiles of latencies over a window, from a bounded number of samples."""

import math
from collections import deque
from typing import NamedTuple

MAX_SAMPLES = 4096


class Summary(NamedTuple):
    """Seconds, over ``n`` requests."""

    p50: float
    p95: float
    n: int


class Latencies:
    """Samples dated by the engine's monotonic clock; at most the latest `MAX_SAMPLES` are kept."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)

    def add(self, mono: float, seconds: float) -> None:
        if math.isfinite(mono) and math.isfinite(seconds) and seconds >= 0:
            self._samples.append((mono, seconds))

    def clear(self) -> None:
        self._samples.clear()

    def summary(self, mono_now: float | None, window: float = 60.0) -> Summary | None:
        """Nearest-rank p50 and p95 (values that occurred) of the last ``window`` seconds; None without samples."""
        if mono_now is None:
            return None
        values = sorted(value for mono, value in self._samples if mono_now - window <= mono)
        if not values:
            return None
        return Summary(nearest_rank(values, 0.50), nearest_rank(values, 0.95), len(values))


def nearest_rank(ordered: list[float], share: float) -> float:
    """The smallest value that at least ``share`` of ``ordered`` (ascending, not empty) does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
