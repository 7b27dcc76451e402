"""Percentiles of latencies over a window, and of all that was seen, from a bounded number of samples and counts."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_SAMPLES = 4096

LEAST_OCTAVE: Final = -14
"""Seconds below 2 to this (61 microseconds) are counted as one."""

OCTAVES: Final = 32
"""Above 2 to ``LEAST_OCTAVE + OCTAVES`` (three days) too."""

STEPS: Final = 16
"""Counts in an octave: what is counted is known to within 4.4 %."""

Values = npt.NDArray[np.float64]


class Summary(NamedTuple):
    """Seconds, over ``n`` requests."""

    p50: float
    p95: float
    n: int


class Latencies:
    """Samples dated by the engine's monotonic clock: the latest `MAX_SAMPLES`, and of all of them how many are how long."""

    def __init__(self) -> None:
        self._dates = np.zeros(MAX_SAMPLES)
        self._values = np.zeros(MAX_SAMPLES)
        self._count = 0
        self._all = np.zeros(OCTAVES * STEPS, dtype=np.int64)

    def add(self, mono: float, seconds: float) -> None:
        if math.isfinite(mono) and math.isfinite(seconds) and seconds >= 0:
            place = self._count % MAX_SAMPLES
            self._dates[place], self._values[place] = mono, seconds
            self._count += 1
            self._all[_step_of(seconds)] += 1

    def clear(self) -> None:
        self._count = 0
        self._all[:] = 0

    @property
    def counted(self) -> int:
        """All that was ever seen."""
        return self._count

    def reaches(self, mono_now: float | None, window: float) -> bool:
        """Whether all samples of the window are still kept."""
        if mono_now is None or self._count <= MAX_SAMPLES:
            return True
        return bool(self._dates[self._count % MAX_SAMPLES] < mono_now - window)

    def within(self, mono_now: float | None, window: float) -> Values:
        """Those of the last ``window`` seconds that are kept, ascending."""
        if mono_now is None:
            return np.empty(0)
        known = min(self._count, MAX_SAMPLES)
        return np.sort(self._values[:known][self._dates[:known] >= mono_now - window])

    def dated(self, start: float, stop: float) -> tuple[Values, Values]:
        """Dates and values of those from ``start`` up to ``stop``, by the engine's monotonic clock."""
        known = min(self._count, MAX_SAMPLES)
        dates, values = self._dates[:known], self._values[:known]
        chosen = (dates >= start) & (dates < stop)
        return dates[chosen], values[chosen]

    def summary(self, mono_now: float | None, window: float = 60.0) -> Summary | None:
        """Nearest-rank p50 and p95 (values that occurred) of the last ``window`` seconds; None without samples."""
        if mono_now is None or not self._count:
            return None
        values = self.within(mono_now, window)
        if not len(values):
            return None
        return Summary(nearest_rank(values, 0.50), nearest_rank(values, 0.95), len(values))

    def of_all(self, share: float) -> float | None:
        """The nearest-rank percentile of all that was ever seen, to within a step of the counts; None where nothing was."""
        total = int(self._all.sum())
        if not total:
            return None
        step = int(np.searchsorted(np.cumsum(self._all), max(1, math.ceil(share * total))))
        return float(2.0 ** (LEAST_OCTAVE + (step + 0.5) / STEPS))

    def octaves(self) -> npt.NDArray[np.int64]:
        """``int64[OCTAVES]``: how many of all are from 2 to ``LEAST_OCTAVE + i`` seconds up to twice that."""
        octaves: npt.NDArray[np.int64] = self._all.reshape(OCTAVES, STEPS).sum(axis=1)
        return octaves


def _step_of(seconds: float) -> int:
    if seconds <= 0:
        return 0
    return min(OCTAVES * STEPS - 1, max(0, math.floor((math.log2(seconds) - LEAST_OCTAVE) * STEPS)))


def in_octaves(values: Values) -> npt.NDArray[np.int64]:
    """``int64[OCTAVES]``: the same of these values."""
    steps = np.floor(np.log2(np.maximum(values, 1e-9))) - LEAST_OCTAVE
    return np.bincount(np.clip(steps, 0, OCTAVES - 1).astype(np.int64), minlength=OCTAVES)


def nearest_rank(ordered: Sequence[float] | npt.NDArray[np.float64], share: float) -> float:
    """The smallest value that at least ``share`` of ``ordered`` (ascending, not empty) does not exceed."""
    return float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])
