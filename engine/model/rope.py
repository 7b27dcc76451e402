"""Rotary positions: how fast each pair of a head's elements turns, and what stretches that to longer contexts.

Su et al., "RoFormer" (2021). Stretched: by division (Chen et al., "Position interpolation", 2023); by wavelength, as in
Llama 3.1; YaRN (Peng et al., 2023).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Frequencies = NDArray[np.float64]
"""Radians a position, one for each pair of a head's elements: ``[head_size / 2]``, falling."""


class RopeScaling(Protocol):
    """A change to the plain frequencies; hashable."""

    @property
    def magnitude(self) -> float:
        """Factor on queries and keys."""
        ...

    def apply(self, frequencies: Frequencies, base: float) -> Frequencies: ...


@dataclass(frozen=True, slots=True)
class Linear:
    """All turn ``factor`` times slower."""

    factor: float
    magnitude = 1.0

    def __post_init__(self) -> None:
        _above_zero(self.factor, "factor")

    def apply(self, frequencies: Frequencies, base: float) -> Frequencies:
        return frequencies / self.factor


@dataclass(frozen=True, slots=True)
class Divided:
    """Each turns slower by a factor of its own, as GGUF files tell it (``rope_freqs.weight``)."""

    factors: tuple[float, ...]
    magnitude = 1.0

    def apply(self, frequencies: Frequencies, base: float) -> Frequencies:
        slowed: Frequencies = frequencies / np.array(self.factors, dtype=np.float64)
        return slowed


@dataclass(frozen=True, slots=True)
class Llama3:
    """Pairs that turn less than ``low`` times in the ``original`` context of so many tokens turn ``factor`` times slower,
    those that turn more than ``high`` times as before; between, in proportion."""

    factor: float
    low: float
    high: float
    original: int
    magnitude = 1.0

    def __post_init__(self) -> None:
        _above_zero(self.factor, "factor")
        _above_zero(self.original, "original_max_position_embeddings")
        if not self.low < self.high:
            raise ValueError(f"rotary scaling: low_freq_factor {self.low} is not below high_freq_factor {self.high}")

    def apply(self, frequencies: Frequencies, base: float) -> Frequencies:
        turns = self.original * frequencies / (2 * math.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0.0, 1.0)
        return frequencies * (kept + (1.0 - kept) / self.factor)


@dataclass(frozen=True, slots=True)
class Yarn:
    """As `Llama3`, with the proportion linear in the pair's number; ``fast`` and ``slow`` count turns too. ``magnitude``:
    see `yarn_magnitude`."""

    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0
    magnitude: float = 1.0
    truncate: bool = True
    """Whether the borders are whole numbers of pairs."""

    def __post_init__(self) -> None:
        for name in ("factor", "original", "fast", "slow", "magnitude"):
            _above_zero(getattr(self, name), name)

    def apply(self, frequencies: Frequencies, base: float) -> Frequencies:
        size = 2 * len(frequencies)

        def pair(turns: float) -> float:
            """The number of the pair that turns so often in the original context."""
            return size * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(base))

        first, last = pair(self.fast), pair(self.slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, size - 1)
        slowed: Frequencies = np.clip((np.arange(len(frequencies)) - first) / max(last - first, 0.001), 0.0, 1.0)
        mixed: Frequencies = frequencies * ((1.0 - slowed) + slowed / self.factor)
        return mixed


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """What YaRN multiplies queries and keys with where a file does not say."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1.0 else 1.0


@dataclass(frozen=True, slots=True)
class Rope:
    """The rotary positions of a layer."""

    base: float = 10_000.0
    scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base) and self.base > 1.0):
            raise ValueError(f"rotary base {self.base} must be above 1")

    @property
    def magnitude(self) -> float:
        """Factor on queries and keys."""
        return 1.0 if self.scaling is None else self.scaling.magnitude

    def frequencies(self, head_size: int) -> Frequencies:
        """Of the pairs of a head of so many elements."""
        half = head_size // 2
        plain = self.base ** (-np.arange(half, dtype=np.float64) / half)
        return plain if self.scaling is None else self.scaling.apply(plain, self.base)


PLAIN = Rope()


def _above_zero(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"rotary scaling: {name} {value} must be above 0")
