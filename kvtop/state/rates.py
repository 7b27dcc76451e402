"""Rates over a stated window, from the differences of an engine's totals."""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence

from kvtop.protocol import Counters

KEEP_SECONDS = 75.0
SPACING = 0.1
"""Samples closer than this replace one another, so that a fast engine costs no more memory than a slow one."""

SHORTEST_SPAN = 0.25
"""With less history than this a rate would be noise and is not given."""

TRACKED = tuple(Counters.model_fields)
"""Every total that engines send, so that each can be shown as a rate."""


class Rates:
    """Totals by the engine's monotonic clock. A total that falls, or time that goes back, starts it anew.

    ``tracked``: the totals kept; None keeps whatever it is given. ``keep``: for so many seconds, in samples ``spacing``
    seconds apart at least.
    """

    def __init__(
        self, tracked: Sequence[str] | None = TRACKED, *, keep: float = KEEP_SECONDS, spacing: float = SPACING
    ) -> None:
        self._tracked, self._keep, self._spacing = tracked, keep, spacing
        self._times: deque[float] = deque()
        self._totals: deque[dict[str, int]] = deque()

    def clear(self) -> None:
        self._times.clear()
        self._totals.clear()

    def add(self, mono: float, counters: Mapping[str, int | float]) -> None:
        """The totals at ``mono``; absent ones are unknown."""
        names = counters if self._tracked is None else self._tracked
        totals = {name: int(counters[name]) for name in names if name in counters}
        if self._times:
            last = self._totals[-1]
            if mono < self._times[-1] or any(value < last.get(name, value) for name, value in totals.items()):
                self.clear()
        if len(self._times) > 1 and mono - self._times[-2] < self._spacing:
            self._times.pop()
            self._totals.pop()
        self._times.append(mono)
        self._totals.append(totals)
        while len(self._times) > 1 and self._times[1] < mono - self._keep:
            self._times.popleft()
            self._totals.popleft()

    def increase(self, name: str, mono_now: float, window: float) -> tuple[int, float] | None:
        """``(increase, seconds)`` over the last ``window``, shorter where less is known; None as for `per_second`."""
        if not self._times:
            return None
        place = bisect_right(self._times, mono_now - window) - 1
        # Totals stand still between two samples, so an old sample holds at the window's edge too.
        span = window if place >= 0 else mono_now - self._times[0]
        first, last = self._totals[max(0, place)].get(name), self._totals[-1].get(name)
        if first is None or last is None or span < min(SHORTEST_SPAN, window):
            return None
        return last - first, span

    def span(self, mono_now: float | None, window: float = 5.0) -> float | None:
        """Seconds that a rate over ``window`` covers at ``mono_now``: less where less has been seen."""
        if mono_now is None or not self._times:
            return None
        return min(window, max(0.0, mono_now - self._times[0]))

    def per_second(self, name: str, mono_now: float | None, window: float = 5.0) -> float | None:
        """Increase of the counter a second; None while unknown (just started, just restarted, not exposed)."""
        delta = None if mono_now is None else self.increase(name, mono_now, window)
        return None if delta is None else delta[0] / delta[1]

    def per_minute(self, name: str, mono_now: float | None, window: float = 60.0) -> float | None:
        rate = self.per_second(name, mono_now, window)
        return None if rate is None else rate * 60.0

    def hit_rate(self, mono_now: float | None, window: float = 60.0) -> float | None:
        """Share of looked-up prompt tokens found in the prefix cache; None when none was looked up."""
        if mono_now is None:
            return None
        queries = self.increase("prefix_query_tokens", mono_now, window)
        hits = self.increase("prefix_hit_tokens", mono_now, window)
        if queries is None or hits is None or queries[0] <= 0:
            return None
        return hits[0] / queries[0]

    def hit_rate_lifetime(self) -> float | None:
        """The same since the engine started."""
        last = self._totals[-1] if self._totals else {}
        queries, hits = last.get("prefix_query_tokens"), last.get("prefix_hit_tokens")
        return None if not queries or hits is None else hits / queries
