"""Compaction: moving blocks together, so that a range of the pool becomes free.

`plan_moves` is pure. The owner of the tables carries moves out in the books, at the end of planning an iteration; the KV
follows by copies that the runner does before the forward pass of that plan. Block tables, hashes, owners, references,
pins and the place in the order of eviction go along, so nobody notices but for the block numbers. Blocks that are being
copied to or from another tier, and those that nothing was written to yet, stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.memory.blocks import FREE, TRANSFER
from engine.memory.pool import BlockPool
from engine.words import counted

CHUNK = 16384
"""Blocks looked at in one go, so that a few moves in a large pool cost little."""


@dataclass(frozen=True, slots=True)
class Move:
    source: int
    target: int


@dataclass(slots=True)
class Job:
    """A command to free the blocks ``first … end-1``, or (None) to move everything down; it ends after ``left`` moves."""

    span: tuple[int, int] | None
    left: int
    moved: int = 0


def plan_moves(pool: BlockPool, most: int, span: tuple[int, int] | None = None) -> list[Move]:
    """At most ``most`` moves of blocks with content, highest first, into free blocks, lowest first.

    Without ``span`` content only moves down; with it, from the blocks ``span[0] … span[1]-1`` to any others.
    """
    first, end = span or (0, pool.total)
    moves: list[Move] = []
    for source, target in zip(_movable(pool, first, end), _free(pool, span), strict=False):
        if len(moves) == most or (span is None and target > source):
            break
        moves.append(Move(source, target))
    return moves


def _movable(pool: BlockPool, first: int, end: int) -> Iterator[int]:
    for high in range(end, first, -CHUNK):
        low = max(first, high - CHUNK)
        state = pool.state[low:high]
        fits = (state != FREE) & (state != TRANSFER) & (pool.copies[low:high] == 0) & (pool.fill[low:high] > 0)
        yield from (low + np.flatnonzero(fits)[::-1]).tolist()


def _free(pool: BlockPool, span: tuple[int, int] | None) -> Iterator[int]:
    for low in range(0, pool.total, CHUNK):
        free = low + np.flatnonzero(pool.state[low : low + CHUNK] == FREE)
        if span is not None:
            free = free[(free < span[0]) | (free >= span[1])]
        yield from free.tolist()


def check_span(pool: BlockPool, span: tuple[int, int]) -> None:
    """Raises ValueError, in one sentence, for a range that is not one of the pool's."""
    first, end = span
    if not 0 <= first < end <= pool.total:
        raise ValueError(f"blocks {first} to {end} are no range of the pool's blocks 0 to {pool.total}")


class Compaction:
    """What of a command to compact, or by the policy, is to be done in an iteration. ``job``: the command that is open."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.job: Job | None = None

    def start(self, span: tuple[int, int] | None) -> int:
        """From now on, free ``span`` or move everything down. Returns how many blocks that moves as things are now.

        Replaces an open job. Raises ValueError as `check_span` does.
        """
        if span is not None:
            check_span(self._pool, span)
        count = len(plan_moves(self._pool, self._pool.total, span))
        self.job = Job(span, count) if count else None
        return count

    def due(self, most: int, *, by_policy: bool) -> list[Move]:
        """At most ``most`` moves: by the command that is open, else, where it says so now, by the policy."""
        if self.job is not None:
            return plan_moves(self._pool, min(self.job.left, most), self.job.span)
        return plan_moves(self._pool, most) if by_policy else []

    def book(self, moves: list[Move]) -> str | None:
        """Count ``moves``, which were made, for the open command. Returns how it ended, in a sentence, when it did."""
        job, pool = self.job, self._pool
        if job is None:
            return None
        job.left -= len(moves)
        job.moved += len(moves)
        if job.left and moves:
            return None
        self.job = None
        if job.span is None:
            used = np.flatnonzero(pool.state != FREE)
            above = pool.total - (int(used[-1]) + 1 if len(used) else 0)
            return f"{counted(job.moved, 'block')} moved; the last {counted(above, 'block')} of the pool are free"
        first, end = job.span
        held = int(np.count_nonzero(pool.state[first:end] != FREE))
        return f"{counted(job.moved, 'block')} moved out of {first} to {end}; {end - first - held} of {end - first} are free"
