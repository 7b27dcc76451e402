"""Numbers over time as one row of cells: a blank where nothing is known, a line on the ground where there was nothing."""

from math import ceil
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from kvtop.views.glyphs import Glyphs

Values = npt.NDArray[np.float64]

Fold = Literal["most", "mean"]
"""What stands for several seconds: the most of them, or their mean."""

_DOTS: Final = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a braille cell's left and right dots, from below; the lowest of the left column is 0x40, then 0x04 …"""


def folded(values: Values, each: int, fold: Fold) -> Values:
    """``values`` by groups of ``each``, the last maybe shorter; NaN only where none of a group is known."""
    missing = -len(values) % each
    groups = np.append(values, np.full(missing, np.nan)).reshape(-1, each)
    if fold == "most":
        most: Values = np.fmax.reduce(groups, axis=1)
        return most
    known = np.isfinite(groups)
    count = known.sum(axis=1)
    sums = np.where(known, groups, 0.0).sum(axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def steps(values: Values, top: float, most: int) -> list[int | None]:
    """Each value as a step from 0 to ``most``, which stands for ``top`` and above; None where it is unknown. Only what is
    nothing is step 0."""
    found: list[int | None] = []
    for value in values.tolist():
        if value != value:
            found.append(None)
        else:
            found.append(
                0 if value <= 0 else most if value >= top else max(1, min(most, ceil(value / top * most - 1e-9)))
            )
    return found


def spark(values: Values, top: float, glyphs: Glyphs) -> str:
    """One cell a value; ``top`` is the height of a whole cell."""
    ramp = glyphs.ramp
    return "".join(" " if step is None else ramp[step] for step in steps(values, top, len(ramp) - 1))


def braille(values: Values, top: float) -> str:
    """One cell for two values, each up to four dots high; what is nothing has none, and what is not has one at least.

    A cell of which nothing is known is a blank, one of which both are nothing an empty braille cell's line.
    """
    found = steps(values, top, 4)
    found += [None] * (len(found) % 2)
    cells = []
    for left, right in zip(found[::2], found[1::2], strict=True):
        if left is None and right is None:
            cells.append(" ")
            continue
        bits = sum(_DOTS[0][: left or 0]) + sum(_DOTS[1][: right or 0])
        cells.append(chr(0x2800 + bits) if bits else "_")
    return "".join(cells)


def top_of(values: Values) -> float | None:
    """The highest that is known; None where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
