"""When requests come: seeded processes as endless sequences of times, in seconds from the start of the load."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closed:
    """``streams`` users, each of whom sends the next request when the last one is answered, and a while after one that
    failed: no times of its own."""

    streams: int

    def describe(self, what: str = "requests") -> str:
        del what
        return f"closed loop, {self.streams} stream{'' if self.streams == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Renewal:
    """Independent gaps with mean 1/``rate`` s, of a gamma distribution with shape ``burstiness``.

    1 is a Poisson process, below 1 comes in bursts, above 1 is more regular, infinite is a metronome.
    """

    rate: float
    burstiness: float = 1.0

    def times(self, seed: int) -> Iterator[float]:
        draw = random.Random(f"gaps {seed}")
        when = 0.0
        while True:
            if math.isinf(self.burstiness):
                when += 1 / self.rate
            elif self.burstiness == 1:
                when += draw.expovariate(self.rate)
            else:
                when += draw.gammavariate(self.burstiness, 1 / (self.rate * self.burstiness))
            yield when

    def describe(self, what: str = "requests") -> str:
        kind = "Poisson" if self.burstiness == 1 else f"gamma (burstiness {self.burstiness:g})"
        return f"{kind}, {self.rate:g} {what}/s"


@dataclass(frozen=True, slots=True)
class Bursts:
    """``size`` requests at once, ``every`` so many seconds, the first at 0."""

    size: int
    every: float

    def times(self, seed: int) -> Iterator[float]:
        del seed  # nothing is drawn
        burst = 0
        while True:
            for _ in range(self.size):
                yield burst * self.every
            burst += 1

    def describe(self, what: str = "requests") -> str:
        return f"bursts of {self.size} {what} every {self.every:g} s"


@dataclass(frozen=True, slots=True)
class Ramp:
    """A Poisson process whose rate goes evenly from ``start`` to ``end`` requests/s within ``seconds``, and stays there."""

    start: float
    end: float
    seconds: float

    def times(self, seed: int) -> Iterator[float]:
        """Ends only where the rate has come down to 0."""
        draw = random.Random(f"gaps {seed}")
        expected = 0.0
        while True:
            expected += draw.expovariate(1.0)
            when = self._when(expected)
            if when is None:
                return
            yield when

    def expected(self, seconds: float) -> float:
        """How many requests come on average in the first ``seconds``."""
        slope = (self.end - self.start) / self.seconds
        inside = min(seconds, self.seconds)
        return self.start * inside + slope * inside**2 / 2 + max(0.0, seconds - self.seconds) * self.end

    def _when(self, expected: float) -> float | None:
        """The time by which ``expected`` requests have come on average: a unit Poisson process, stretched by the rate."""
        beyond = expected - self.expected(self.seconds)
        if beyond > 0:
            return self.seconds + beyond / self.end if self.end > 0 else None
        slope = (self.end - self.start) / self.seconds
        # The form of the quadratic's root that loses no digits where the slope is near 0.
        return 2 * expected / (self.start + math.sqrt(max(0.0, self.start**2 + 2 * slope * expected)))

    def describe(self, what: str = "requests") -> str:
        return f"Poisson, from {self.start:g} to {self.end:g} {what}/s in {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The times of a trace, in seconds, multiplied by ``time_scale`` (0.1: ten times as fast)."""

    recorded: Sequence[float]
    time_scale: float = 1.0

    def times(self, seed: int) -> Iterator[float]:
        del seed
        return (when * self.time_scale for when in self.recorded)

    def describe(self, what: str = "requests") -> str:
        del what
        return f"the trace's own times x{self.time_scale:g}"


OpenLoop = Renewal | Bursts | Ramp | Recorded
"""What sends at its times, whatever has become of the requests before."""

Arrivals = Closed | OpenLoop
