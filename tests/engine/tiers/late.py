"""A mover for tests: copies happen late, in any order, now and then not at all; contents are those of a fake runner."""

import random
from dataclasses import dataclass

from engine.tiers.mover import Address, Copy, CopyResult


@dataclass
class Trouble:
    """How the copies go."""

    fail: float = 0.0
    """Share of copies that fail."""
    late: float = 0.5
    """Share of copies under way that do not end at a poll."""


class LateMover:
    """``memory[block]`` is what a device block holds. A copy reads its source only when it ends, as late as can be:
    whatever was done to the source meanwhile shows."""

    def __init__(self, memory: list[list[int]], seed: int = 0, trouble: Trouble | None = None, limit: int = 64) -> None:
        self.trouble = trouble or Trouble()
        self.under_way: list[Copy] = []
        self.closed = False
        self.ended = 0
        self._memory = memory
        self._below: dict[tuple[int, int], list[int]] = {}
        self._draw = random.Random(seed)
        self._limit = limit

    @property
    def room(self) -> int:
        return self._limit - len(self.under_way)

    def submit(self, copy: Copy) -> None:
        assert self.room > 0, "more copies than there is room for"
        self.under_way.append(copy)

    def poll(self) -> list[CopyResult]:
        return self._end([copy for copy in self.under_way if self._draw.random() >= self.trouble.late])

    def wait(self, seconds: float) -> bool:
        return bool(self.under_way)

    def finish(self) -> list[CopyResult]:
        return self._end(list(self.under_way))

    def close(self) -> None:
        self.closed = True

    def _end(self, copies: list[Copy]) -> list[CopyResult]:
        self._draw.shuffle(copies)
        self.ended += len(copies)
        return [self._copy(copy) for copy in copies]

    def _copy(self, copy: Copy) -> CopyResult:
        self.under_way.remove(copy)
        if self._draw.random() < self.trouble.fail:
            # Half done: what is there now is no use to anybody.
            self._put(copy.target, [-1] * len(self._memory[0]))
            return CopyResult(copy, f"copy {copy.num} was planned to fail", 0, 1.0)
        self._put(copy.target, list(self._get(copy.source)))
        return CopyResult(copy, None, 10, 1.0)

    def _get(self, place: Address) -> list[int]:
        return self._memory[place.slot] if place.tier == 0 else self._below[place.tier, place.slot]

    def _put(self, place: Address, content: list[int]) -> None:
        if place.tier == 0:
            self._memory[place.slot][:] = content
        else:
            self._below[place.tier, place.slot] = content
