"""A recording as OpenMetrics with timestamps: every gauge and counter, a sample a second.

All samples of a metric stand together there, so a stretch is read before its first line is written; what is kept of it is
eight bytes for each number of each second.
"""

from array import array
from collections.abc import Iterator
from math import isfinite, nan

from kvtop.export.stretch import Stretch, Ticks
from kvtop.views.openmetrics import END, FAMILIES, known, labels


class _Series:
    """Of one run of the engine; ``numbers`` has a column for each of `FAMILIES`, NaN where unknown."""

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.walls = array("d")
        self.numbers = [array("d") for _ in FAMILIES]


def openmetrics_series(stretch: Stretch) -> Iterator[str]:
    """Lines. Timestamps only rise within a series: a second that is dated no later than the one before it is left out."""
    runs: dict[str, _Series] = {}
    ticks = Ticks()
    for step in stretch.steps():
        state = step.state
        if not ticks.due(step) or state.wall is None or not isfinite(state.wall):
            continue
        name = labels(state.hello, run=True)
        series = runs.setdefault(name, _Series(name))
        at = round(state.wall, 3)
        if series.walls and at <= series.walls[-1]:
            continue
        series.walls.append(at)
        for column, family in zip(series.numbers, FAMILIES, strict=True):
            number = known(state, family)
            column.append(nan if number is None else number)
    for place, family in enumerate(FAMILIES):
        told = False
        for series in runs.values():
            for wall, number in zip(series.walls, series.numbers[place], strict=True):
                if isfinite(number):
                    if not told:
                        yield from family.head()
                    told = True
                    yield family.sample(series.labels, int(number) if number.is_integer() else number, wall)
    yield END
