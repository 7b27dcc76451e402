"""Before and after, with an error bar: the difference of two means of what was seen second by second.

Seconds that follow one another are alike, so they are no independent samples: taken as such they would make the error bar
far too short. They are gathered into blocks of five seconds or more, whose means are nearly independent (the method of
batch means: A. M. Law, "Simulation Modeling and Analysis", chapter on output analysis), and the two sets of means are
compared by Welch's t-interval for unequal variances (B. L. Welch, Biometrika 34, 1947), 95 %, with the
Welch-Satterthwaite degrees of freedom. Quantiles of t are those of Abramowitz and Stegun, 26.7.5.

What it does not know: other things that changed at the same time, and swings longer than a window.
"""

from math import inf, isfinite, sqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_S: Final = 5
"""Seconds of a block at least."""

MOST_BLOCKS: Final = 15
"""Blocks of a window at most: of longer windows the blocks are longer."""

LEAST_BLOCKS: Final = 6
"""Blocks with something known, on either side, from which on anything is said."""

LEAST_S: Final = BLOCK_S * LEAST_BLOCKS
LONGEST_S: Final = 300
"""Seconds of a window at most."""

Values = npt.NDArray[np.float64]

_NORMAL = 1.959964


class Comparison(NamedTuple):
    """Means of the two windows, and the difference (after - before) give or take ``margin``, 95 %. ``blocks``: of either
    side with something known. ``margin`` None: it cannot be said yet."""

    before: float | None
    after: float | None
    difference: float | None
    margin: float | None
    blocks: tuple[int, int]

    @property
    def told(self) -> bool | None:
        """Whether the two differ by more than the margin; None where that cannot be said."""
        if self.margin is None or self.difference is None:
            return None
        return abs(self.difference) > self.margin


def block_length(seconds: int) -> int:
    """Seconds of a block in a window of so many."""
    return max(BLOCK_S, -(-seconds // MOST_BLOCKS))


def block_means(values: Values, each: int) -> Values:
    """Means of whole blocks of ``each`` values, from the first on; without those of which less than half is known."""
    whole = len(values) // each
    groups = values[: whole * each].reshape(whole, each)
    known = np.isfinite(groups)
    counts = known.sum(axis=1)
    kept = 2 * counts >= each
    sums = np.where(known, groups, 0.0).sum(axis=1)
    means: Values = sums[kept] / counts[kept]
    return means


def compare(before: Values, after: Values) -> Comparison:
    """Two sets of block means."""
    means = [float(part.mean()) if len(part) else None for part in (before, after)]
    blocks = (len(before), len(after))
    if means[0] is None or means[1] is None:
        return Comparison(means[0], means[1], None, None, blocks)
    difference = means[1] - means[0]
    if min(blocks) < LEAST_BLOCKS:
        return Comparison(means[0], means[1], difference, None, blocks)
    parts = [float(part.var(ddof=1)) / len(part) for part in (before, after)]
    error = sum(parts)
    if error <= 0:
        return Comparison(means[0], means[1], difference, 0.0, blocks)
    spread = sum(part**2 / (n - 1) for part, n in zip(parts, blocks, strict=True))
    freedom = error**2 / spread if spread > 0 else inf
    margin = t_quantile(freedom) * sqrt(error)
    return Comparison(means[0], means[1], difference, margin if isfinite(margin) else None, blocks)


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t with so many degrees of freedom, 3 or more; right to four digits from 4 on."""
    x, v = _NORMAL, max(freedom, 3.0)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92_160,
    )
    return x + sum(term / v**power for power, term in enumerate(terms, 1))


def block_percentiles(dates: Values, values: Values, start: float, length: int, each: int, share: float) -> Values:
    """The nearest-rank percentile of the values in each block of ``each`` seconds from ``start`` on, ``length`` seconds in
    all; blocks without a value are left out."""
    found = []
    for low in range(0, length - each + 1, each):
        inside = np.sort(values[(dates >= start + low) & (dates < start + low + each)])
        if len(inside):
            found.append(inside[max(0, int(np.ceil(share * len(inside))) - 1)])
    return np.array(found, dtype=np.float64)
