"""What an engine did second by second, for as long as half an hour: what trends and comparisons are taken from.

Seconds are those of the engine's monotonic clock, counted on where that clock jumps. What was not seen stays NaN: a gap.
"""

from collections.abc import Sequence
from math import floor
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.protocol import Durations

LATEST: Final = 1e12
"""Seconds: what is dated later is no time of any clock, and left out."""

MOST: Final = 1e30
"""Larger is no number of anything here."""

KEPT: Final = 1800
"""Seconds kept: with all columns some 170 KB, however long a viewer runs."""

JOIN_S: Final = 2.0
"""Frames further apart than this that do not join leave a gap between them."""

LEVELS: Final = ("kv_used", "kv_cached", "kv_free", "running", "waiting", "oldest_wait")
"""As they were at the end of a second. Those of KV are shares of the pool, ``oldest_wait`` is in seconds."""

PARTS: Final = tuple(Durations.model_fields)
"""Milliseconds of an iteration by part."""

TOTALS: Final = (
    "iterations",
    "prefill_tokens",
    "decode_tokens",
    "preemptions",
    "admissions",
    "finished",
    "evictions",
    "prefix_query_tokens",
    "prefix_hit_tokens",
    "tier_bytes",
    *PARTS,
)
"""Of these, what came to them in a second. ``tier_bytes``: copied into any tier but the device's, and out of it."""

COLUMNS: Final = (*LEVELS, *TOTALS)
_PLACE = {name: place for place, name in enumerate(COLUMNS)}
_FIRST_TOTAL = len(LEVELS)

Values = npt.NDArray[np.float64]


class Reading(NamedTuple):
    """What is known at one time. ``at``: seconds by the history's own clock; NaN in either array: not exposed."""

    at: float
    levels: Values
    totals: Values


class History:
    """A ring of seconds.

    Attributes:
        edge: The number of the second that is going on; those before it have ended. None before the first frame.
    """

    def __init__(self) -> None:
        self._ring = np.full((len(COLUMNS), KEPT), np.nan, dtype=np.float32)
        self._at_edge: Values = np.full(len(TOTALS), np.nan)
        self._shift = 0.0
        self.edge: int | None = None
        self.first: int | None = None
        """The first second that was seen."""

    def at(self, mono: float) -> float:
        """The engine's monotonic seconds by this history's clock."""
        return mono - self._shift

    def jumped(self, seconds: float) -> None:
        """The engine's monotonic clock has jumped so far: no time has passed."""
        self._shift += seconds

    def turns(self, mono: float) -> bool:
        """Whether a second has ended with ``mono``: only then need anything be looked at."""
        return self.edge is None or self.edge + 1 <= mono - self._shift

    def add(self, before: Reading | None, after: Reading, *, still: bool, joined: bool) -> None:
        """Writes down the seconds that ended between two readings.

        Args:
            before: As it was until the frame that was taken over last; None for the first.
            after: As it is now.
            still: Nothing ran in between, whatever came last: all of it came at the end.
            joined: No frame was missed in between.
        """
        if not abs(after.at) < LATEST:
            return
        if before is None or self.edge is None:
            self._begin(after)
            return
        span = after.at - before.at
        stop = floor(after.at)
        if stop <= self.edge:
            return
        if bool(np.any(after.totals < before.totals)) or not (joined or span <= JOIN_S):
            # Fallen totals are those of another count; and what came in a gap, nobody knows the second of.
            self._write(self.edge, np.full((len(COLUMNS), min(stop - self.edge, KEPT)), np.nan), stop)
            self._at_edge = np.full(len(TOTALS), np.nan)
            return
        first = max(self.edge, stop - KEPT)
        ends = np.arange(first, stop + 1, dtype=np.float64)
        passed = np.zeros(len(ends)) if still else np.clip((ends - before.at) / max(span, 1e-9), 0.0, 1.0)
        totals = before.totals[:, None] + passed * (after.totals - before.totals)[:, None]
        if first == self.edge:
            totals[:, 0] = self._at_edge
        rows = np.empty((len(COLUMNS), stop - first))
        rows[:_FIRST_TOTAL] = before.levels[:, None]
        rows[_FIRST_TOTAL:] = np.maximum(np.diff(totals, axis=1), 0.0)
        self._at_edge = totals[:, -1]
        self._write(first, rows, stop)

    def _begin(self, after: Reading) -> None:
        self.edge = self.first = floor(after.at)
        self._at_edge = np.full(len(TOTALS), np.nan)

    def _write(self, first: int, rows: Values, stop: int) -> None:
        # Of a longer time, its end.
        first = max(first, stop - rows.shape[1])
        kept = rows[:, : stop - first]
        # What no number here can be is not known; numpy would warn across the screen.
        self._ring[:, np.arange(first, stop) % KEPT] = np.where(kept <= MOST, kept, np.nan)
        self.edge = stop

    def span(self, name: str, start: int, stop: int) -> Values:
        """``float64[stop - start]``: that column from second ``start`` up to ``stop``; NaN where it is not known.

        Raises KeyError for a name that is none of `COLUMNS`.
        """
        place, out = _PLACE[name], np.full(max(0, stop - start), np.nan)
        if self.edge is None or self.first is None:
            return out
        low, high = max(start, self.first, self.edge - KEPT), min(stop, self.edge)
        if low < high:
            out[low - start : high - start] = self._ring[place, np.arange(low, high) % KEPT]
        return out

    def end(self, mono: float) -> int | None:
        """The second that goes on at the engine's ``mono``, as far as there can be anything to show of it; None before the
        first frame."""
        at = self.at(mono)
        if self.edge is None or not abs(at) < LATEST:
            return self.edge
        # A frame may be on its way for the second that has just ended.
        return max(self.edge, int(at) - 1)

    def spans(self, names: Sequence[str], start: int, stop: int, left: Reading | None = None) -> list[Values]:
        """`span` of each of ``names``. ``left``: how an engine that stands still was left, so that the seconds from `edge`
        on are known too."""
        found = [self.span(name, start, stop) for name in names]
        if left is None or self.edge is None or stop <= self.edge:
            return found
        low = max(start, self.edge)
        for values, name in zip(found, names, strict=True):
            place = _PLACE[name]
            if place < _FIRST_TOTAL:
                values[low - start :] = left.levels[place]
                continue
            total = left.totals[place - _FIRST_TOTAL]
            # NaN stays NaN.
            values[low - start :] = total * 0.0
            if low == self.edge:
                values[low - start] = np.maximum(0.0, total - self._at_edge[place - _FIRST_TOTAL])
        return found

    def copy(self) -> "History":
        """Another with the same seconds, which later ones do not reach."""
        twin = History()
        twin._ring, twin._at_edge, twin._shift = self._ring.copy(), self._at_edge.copy(), self._shift
        twin.edge, twin.first = self.edge, self.first
        return twin
