"""Counting by size: how many of what was seen were no larger than each of some bounds, as Prometheus has histograms."""

import math
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """What a histogram holds at one moment. ``counts[i]`` were above ``bounds[i - 1]`` and at most ``bounds[i]``; there is
    one more than bounds, for what was above all of them."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def within(self, bounds: tuple[float, ...]) -> "Counted":
        """The same by fewer bounds, which are among its own."""
        counts = [0] * (len(bounds) + 1)
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            counts[bisect_left(bounds, bound)] += count
        return Counted(bounds, tuple(counts), self.sum)

    def joined(self, other: "Counted") -> "Counted":
        """Of both, whose bounds are the same."""
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Counted(self.bounds, counts, self.sum + other.sum)


class Histogram:
    """``bounds`` rise."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def counted(self) -> Counted:
        return Counted(self._bounds, tuple(self._counts), self._sum)
