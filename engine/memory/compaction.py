"""Compaction: moving blocks together, so that a range of the pool becomes free.

`plan_moves` is pure. `compact` carries moves out in the books, at the end of the planning of an iteration; the KV
follows by copies that the runner does before the forward pass of that plan. Block tables, hashes, owners, references,
pins and the place in the order of eviction go along, so nobody notices but for the block numbers. Blocks that are being
copied to or from another tier, and those that nothing was written to yet, stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.memory.pool import FREE, TRANSFER, BlockPool
from engine.requests.batch import BlockCopy
from engine.requests.request import Request
from engine.words import counted

if TYPE_CHECKING:
    from engine.scheduling.scheduler import Scheduler

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


def due_moves(scheduler: "Scheduler") -> list[Move]:
    """What is to be moved in this iteration: by the command that is open, else by the policy."""
    policies, job = scheduler.policies, scheduler.compaction
    if scheduler.paused:
        return []
    if job is not None:
        return plan_moves(scheduler.pool, min(job.left, policies.compaction_moves), job.span)
    idle = not scheduler.requests
    if policies.compaction == "continuous" or (policies.compaction == "when_idle" and idle):
        return plan_moves(scheduler.pool, policies.compaction_moves)
    return []


def compact(scheduler: "Scheduler", moves: list[Move]) -> list[Request]:
    """Carry out ``moves`` in the books and plan the copies. Returns the requests whose block tables changed."""
    pool, places = scheduler.pool, {move.source: move.target for move in moves}
    nums: set[int] = set()
    for move in moves:
        nums |= pool.owners_of(move.source)
        pool.move(move.source, move.target)
        scheduler.copies.add(None, BlockCopy(move.source, move.target, int(pool.fill[move.target])), "compaction")
    owners = [scheduler.requests[num] for num in sorted(nums)]
    for request in owners:
        request.block_table = [places.get(block, block) for block in request.block_table]
    scheduler.pins.follow(places)
    return owners


def book(scheduler: "Scheduler", moves: list[Move]) -> str | None:
    """Count ``moves`` for the open command. Returns how it ended, in a sentence, when it did."""
    job, pool = scheduler.compaction, scheduler.pool
    if job is None or scheduler.paused:
        return None
    job.left -= len(moves)
    job.moved += len(moves)
    if job.left and moves:
        return None
    scheduler.compaction = None
    if job.span is None:
        used = np.flatnonzero(pool.state != FREE)
        above = pool.total - (int(used[-1]) + 1 if len(used) else 0)
        return f"{counted(job.moved, 'block')} moved; the last {counted(above, 'block')} of the pool are free"
    first, end = job.span
    held = int(np.count_nonzero(pool.state[first:end] != FREE))
    return (
        f"{counted(job.moved, 'block')} moved out of {first} to {end}; {end - first - held} of {end - first} are free"
    )
