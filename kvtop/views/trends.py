"""How KV, queue, speed and preemptions went: a row of sparklines side by side, over the same time."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from kvtop.state import EngineState
from kvtop.views.fit import Span, line
from kvtop.views.format import UNKNOWN, count, rate, seconds, size
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row
from kvtop.views.spark import Fold, Values, braille, folded, spark, top_of

WINDOWS: Final = ((160, 600), (120, 300), (0, 120))
"""From so many columns on, so many seconds."""

_SCALE = 5
"""Cells of the number that the top of a sparkline stands for."""

_WIDE_SCALE = 10
"""The same where a trend has a row of its own."""

_LEAST = 7
"""Cells that a sparkline should have, before names or tops are told."""

_FINE = 20
"""Cells from which on a sparkline has two values in each."""

_GAP = " "


class Trend(NamedTuple):
    """One sparkline. ``times`` makes its unit of the column's; ``top``: what its height stands for, None: the most it
    has been; ``words``: how that is said."""

    name: str
    short: str
    column: str
    fold: Fold
    role: int
    times: float = 1.0
    top: float | None = None
    words: Callable[[float], str] | None = None

    def said(self, top: float | None) -> str:
        """What its height stands for; empty where it is always the same."""
        if self.top is not None:
            return ""
        if self.words is not None and top is not None:
            return self.words(top)
        return UNKNOWN if top is None else rate(top) if self.fold == "mean" else count(top)


TRENDS: Final = (
    Trend("KV", "KV", "kv_used", "most", Role.ACCENT, top=1.0),
    Trend("queue", "q", "waiting", "most", Role.ACCENT),
    Trend("tok/s", "t/s", "decode_tokens", "mean", Role.ACCENT),
    Trend("pre/min", "pre", "preemptions", "mean", Role.WARN, times=60.0),
)


QUEUE: Final = Trend("waiting", "", "waiting", "most", Role.ACCENT)
OLDEST: Final = Trend("oldest wait", "", "oldest_wait", "most", Role.WARN, words=seconds)
MOVED: Final = Trend("moved a second", "", "tier_bytes", "mean", Role.ACCENT, words=size)
"""Of panels that fill the screen."""


def window_of(state: EngineState, width: int, end: int | None) -> int:
    """Seconds that trends go back on a terminal of ``width``, up to second ``end``: fewer of these where less was seen."""
    first = state.history.first
    seen = 0 if end is None or first is None else end - first
    allowed = [window for least, window in reversed(WINDOWS) if width >= least]
    return next((window for window in allowed if window >= seen), allowed[-1])


def trend_row(
    state: EngineState, width: int, now: float, glyphs: Glyphs = UNICODE, *, before: Sequence[Span] = ()
) -> Row:
    """The window, then name, line and top of each; ``before`` stands at the left. A blank where nothing is known."""
    taken, end = sum(len(text) for text, _ in before), state.trend_end(now)
    window = window_of(state, width, end)
    lead = f"{window // 60}m "
    names = [trend.name for trend in TRENDS]
    scales = [0 if trend.top is not None else _SCALE + 1 for trend in TRENDS]
    for shorter in ("names", "scales", ""):
        fixed = taken + len(lead) + sum(len(name) + 1 for name in names) + sum(scales) + len(_GAP) * (len(TRENDS) - 1)
        cells = max(1, (width - fixed) // len(TRENDS))
        if cells >= _LEAST:
            break
        if shorter == "names":
            names = [trend.short for trend in TRENDS]
        elif shorter == "scales":
            scales = [0] * len(TRENDS)
    spans: list[Span] = [*before, (lead, Role.DIM)]
    columns = _columns(state, end, window)
    for place, (trend, values) in enumerate(zip(TRENDS, columns, strict=True)):
        text, top = _line(trend, values, end, window, cells, glyphs)
        spans += [(f"{_GAP if place else ''}{names[place]} ", Role.DIM), (text, trend.role)]
        if scales[place]:
            spans.append((f" {trend.said(top):<{_SCALE}}", Role.DIM))
    return glyphs.rows([line(spans, width)])[0]


def trend_rows(
    state: EngineState, trends: Sequence[Trend], width: int, now: float, glyphs: Glyphs = UNICODE
) -> list[Row]:
    """One trend a row, over the whole width, one below the other over the same time."""
    end = state.trend_end(now)
    window = window_of(state, width, end)
    margin = max(len(trend.name) for trend in trends) + 1
    lead = f"{window // 60}m "
    cells = max(1, width - margin - len(lead) - _WIDE_SCALE)
    rows = []
    for trend in trends:
        values = np.full(window, np.nan) if end is None else state.trends([trend.column], end - 2 * window, end)[0]
        text, top = _line(trend, values, end, window, cells, glyphs)
        spans = [(f"{lead}{trend.name:<{margin}}", Role.DIM), (text, trend.role), (f" {trend.said(top)}", Role.DIM)]
        rows.append(line(spans, width))
    return glyphs.rows(rows)


def _columns(state: EngineState, end: int | None, window: int) -> list[Values]:
    """The seconds of each, and as many before them as the steps of a line may begin early."""
    if end is None:
        return [np.full(window, np.nan) for _ in TRENDS]
    return state.trends([trend.column for trend in TRENDS], end - 2 * window, end)


def _line(
    trend: Trend, values: Values, end: int | None, window: int, cells: int, glyphs: Glyphs
) -> tuple[str, float | None]:
    """The line in ``cells`` cells, and what its height stands for. Its steps begin at whole multiples of their length, so
    that they move on and do not change what they said."""
    fine = glyphs.braille and cells >= _FINE
    points = cells * (2 if fine else 1)
    each = next(each for each in range(1, window + 1) if window % each == 0 and window // each <= points)
    count = window // each
    if end is None:
        return " " * cells, None
    going_on = end % each or each
    shown = values[len(values) - going_on - (count - 1) * each :] * trend.times
    heights = folded(shown, each, trend.fold)
    top = top_of(heights)
    scale = trend.top if trend.top is not None else top
    text = braille(heights, scale or 1.0) if fine else spark(heights, scale or 1.0, glyphs)
    return text.ljust(cells), None if top is None else scale
