"""How long parts of a request's KV are worth keeping once nobody holds them. After TensorRT-LLM's retention config."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.requests.fields import real, whole

DEFAULT_PRIORITY = 35
"""Of blocks nobody asked to keep."""

HIGHEST_PRIORITY = 100

MAX_PLACE = 2**31 - 1
"""Of a token in a request."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Tokens ``start … end-1`` of a request (prompt then output; ``end`` None: all from ``start`` on) are kept with
    ``priority``, 0 (first to go) to 100, for ``seconds`` after they were computed or hit (None: without end).

    It counts while the policy is ``eviction=priority``. Raises ValueError for an empty range or numbers out of range.
    """

    start: int
    end: int | None
    priority: int
    seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", whole("retention start", self.start, 0, MAX_PLACE))
        object.__setattr__(self, "priority", whole("retention priority", self.priority, 0, HIGHEST_PRIORITY))
        if self.end is not None:
            object.__setattr__(self, "end", whole("retention end", self.end, 0, MAX_PLACE))
            if self.end <= self.start:
                raise ValueError(f"retention: tokens {self.start} to {self.end} are no range of tokens")
        if self.seconds is not None:
            object.__setattr__(self, "seconds", real("retention seconds", self.seconds))
            if self.seconds <= 0:
                raise ValueError(f"retention: {self.seconds} seconds are not possible: give more than 0, or none")


def of_tokens(ranges: Sequence[Retention], first: int, end: int, now: float) -> tuple[int, float] | None:
    """Priority, and the time at which it runs out (infinite: never), of a block of the tokens ``first … end-1``.

    Of several ranges that touch it the highest priority counts, and of these the longest time. None: no range does.
    """
    touching = [r for r in ranges if r.start < end and (r.end is None or r.end > first)]
    if not touching:
        return None
    return max((r.priority, math.inf if r.seconds is None else now + r.seconds) for r in touching)
