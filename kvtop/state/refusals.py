"""For how long the queue's head was refused in the last minute, and by which rule."""

from collections import deque
from collections.abc import Iterator
from math import isfinite
from typing import Final, NamedTuple

from kvtop.protocol import Verdict

WINDOW_S: Final = 60
MOST_KINDS: Final = 16
"""Reasons told apart in one second; an engine has ten."""

LONGEST_S: Final = 2.0
"""Between two frames: what is further apart says nothing of the time in between."""


class Refusal(NamedTuple):
    """``seconds`` of the window in which the head was refused for that reason; ``heads``: how many requests were."""

    code: str
    rule: str
    seconds: float
    heads: int


class Refusals:
    """Dated by seconds of the history's clock. A verdict counts for the time since the frame before it."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, dict[tuple[str, str], tuple[float, frozenset[int]]]]] = deque(
            maxlen=WINDOW_S + 1
        )

    def add(self, at: float, passed: float, verdict: Verdict | None) -> None:
        """A frame at ``at``, ``passed`` seconds after the one before it, had this verdict."""
        if verdict is None or not isfinite(at) or not passed > 0:
            return
        second = int(at)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, {}))
        kinds = self._seconds[-1][1]
        key = (verdict.code, verdict.rule or "")
        if key not in kinds and len(kinds) >= MOST_KINDS:
            return
        seconds, heads = kinds.get(key, (0.0, frozenset()))
        kinds[key] = (seconds + min(passed, LONGEST_S), heads if len(heads) >= 64 else heads | {verdict.request})

    def tally(self, at: float) -> list[Refusal]:
        """Those of the last `WINDOW_S` seconds before ``at``, the longest first."""
        sums: dict[tuple[str, str], tuple[float, frozenset[int]]] = {}
        for kinds in self._within(at):
            for key, (seconds, heads) in kinds.items():
                before, known = sums.get(key, (0.0, frozenset()))
                sums[key] = (before + seconds, known | heads)
        found = [Refusal(*key, min(seconds, float(WINDOW_S)), len(heads)) for key, (seconds, heads) in sums.items()]
        return sorted(found, key=lambda refusal: -refusal.seconds)

    def _within(self, at: float) -> Iterator[dict[tuple[str, str], tuple[float, frozenset[int]]]]:
        return (kinds for second, kinds in self._seconds if at - WINDOW_S <= second <= at)

    def copy(self) -> "Refusals":
        twin = Refusals()
        twin._seconds.extend((second, dict(kinds)) for second, kinds in self._seconds)
        return twin
