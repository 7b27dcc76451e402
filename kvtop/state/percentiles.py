"""Percentiles of latencies over a window, from a bounded number of samples."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_SAMPLES = 4096


class Summary(NamedTuple):
    """Seconds, over ``n`` requests."""

    p50: float
    p95: float
    n: int


class Latencies:
    """Samples dated by the engine's monotonic clock; at most the latest `MAX_SAMPLES` are kept."""

    def __init__(self) -> None:
        self._dates = np.zeros(MAX_SAMPLES)
        self._values = np.zeros(MAX_SAMPLES)
        self._count = 0

    def add(self, mono: float, seconds: float) -> None:
        if math.isfinite(mono) and math.isfinite(seconds) and seconds >= 0:
            place = self._count % MAX_SAMPLES
            self._dates[place], self._values[place] = mono, seconds
            self._count += 1

    def clear(self) -> None:
        self._count = 0

    def summary(self, mono_now: float | None, window: float = 60.0) -> Summary | None:
        """Nearest-rank p50 and p95 (values that occurred) of the last ``window`` seconds; None without samples."""
        if mono_now is None or not self._count:
            return None
        known = min(self._count, MAX_SAMPLES)
        values = np.sort(self._values[:known][self._dates[:known] >= mono_now - window])
        if not len(values):
            return None
        return Summary(nearest_rank(values, 0.50), nearest_rank(values, 0.95), len(values))


def nearest_rank(ordered: Sequence[float] | npt.NDArray[np.float64], share: float) -> float:
    """The smallest value that at least ``share`` of ``ordered`` (ascending, not empty) does not exceed."""
    return float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])
