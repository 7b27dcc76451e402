"""The ledger of a running engine: the same books, looked at piece by piece.

A whole check looks at every block at once and would lengthen one iteration by 0.3 s at a million blocks. An audit goes
round: in each turn a few requests, or a few thousand blocks, and each piece is right or wrong by itself at that moment.
What is wrong stays wrong, so that a round finds it; what exactly it is, `ledger.violations` says then.

That every place of a table is backed by the pool is seen table by table, and that the pool counts no references beyond
those by their sum.
"""

import time
from collections.abc import Iterator

import numpy as np

from engine.memory.blocks import ACTIVE, CACHED, FREE, NOBODY, PINNED, SHARED, TRANSFER
from engine.memory.pins import Pins, pin_violations
from engine.memory.prefix import NO_HASH
from engine.requests.request import Request
from engine.scheduling.invariants import beams, promise, table_contents, table_shape
from engine.scheduling.ledger import violations
from engine.scheduling.roster import ADMITTED_STATES, Roster
from engine.tiers.ledger import tier_pieces
from kvtop.protocol import BLOCK_STATES

PIECE = 1_024
"""Blocks looked at between two looks at the clock: a fraction of a millisecond."""

REQUESTS_AT_ONCE = 64
"""The same for requests that hold nothing."""


class Audit:
    """Goes round and round through the books of ``roster`` and ``pins``."""

    def __init__(self, roster: Roster, pins: Pins) -> None:
        self._roster = roster
        self._pins = pins
        self._pieces: Iterator[list[str]] | None = None
        # The first look costs some milliseconds more than any other: numpy loads what it needs.
        self._blocks(0, min(PIECE, roster.pool.total))

    @property
    def under_way(self) -> bool:
        """A round has begun and is not through."""
        return self._pieces is not None

    def work(self, seconds: float) -> list[str] | None:
        """Goes on with the round, or begins one, for about so long. When the round is through, or has found something:
        what is wrong, a sentence each, as `ledger.violations`; None before that."""
        if self._pieces is None:
            self._pieces = self._round()
        until = time.perf_counter() + seconds
        for found in self._pieces:
            if found:
                # Rather the whole truth than a short iteration. If the whole check cannot see it, it is told all the same.
                self._pieces = None
                return violations(self._roster, self._pins) or found
            if time.perf_counter() >= until:
                return None
        self._pieces = None
        return []

    def round(self) -> list[str]:
        """A whole round at once."""
        self._pieces = None
        found = None
        while found is None:
            found = self.work(1.0)
        return found

    def _round(self) -> Iterator[list[str]]:
        """One list for each piece: what is wrong with it. Between two pieces anything may have changed."""
        roster = self._roster
        yield self._lists()
        idle = 0
        for num in list(roster.requests):
            request = roster.requests.get(num)
            if request is None:
                continue
            found = self._request(request)
            idle += 1
            if found or request.block_table or idle % REQUESTS_AT_ONCE == 0:
                yield found
        yield beams(roster)
        for first in range(0, roster.pool.total, PIECE):
            yield self._blocks(first, min(first + PIECE, roster.pool.total))
        yield from self._sums()
        yield pin_violations(self._pins, roster.pool) if roster.pool.pinned_total or len(self._pins) else []
        if roster.tiers is not None:
            yield from tier_pieces(roster.tiers, roster.requests)

    def _lists(self) -> list[str]:
        roster = self._roster
        found = []
        listed = len(roster.running) + len(roster.waiting)
        if listed != len(roster.requests) or any(r.num not in roster.requests for r in roster.running):
            found.append(f"{len(roster.requests)} requests are live, but running and waiting lists hold {listed}")
        runs = sum(request.state in ADMITTED_STATES for request in roster.requests.values())
        if runs != len(roster.running):
            found.append(f"{runs} live requests run by their state, the running list holds {len(roster.running)}")
        return found

    def _request(self, request: Request) -> list[str]:
        roster, pool = self._roster, self._roster.pool
        if request.state not in ADMITTED_STATES:
            if request.block_table or request.computed_tokens or request.reserved_blocks:
                return [f"request {request.id} waits but it holds blocks, computed tokens or a promise"]
            return []
        if request.block_table and (found := table_shape(request, pool)):
            return found
        found = [*table_contents(request, pool), *promise(request, roster)]
        held = np.array(request.held, dtype=np.int64)
        refs, owner = pool.refs[held], pool.owner[held]
        found += [f"block {b} of request {request.id} is held by nobody" for b in held[refs < 1].tolist()]
        for block in held[(owner != request.num) | (refs > 1)].tolist():
            if request.num not in pool.sharers.get(block, ()):
                found.append(f"block {block} is held by request {request.id}, who is not among its sharers")
        return found

    def _blocks(self, first: int, end: int) -> list[str]:
        """What the pool says of these blocks agrees with itself."""
        pool, piece = self._roster.pool, slice(first, end)
        refs, hashed, pinned = pool.refs[piece], pool.hash[piece] != NO_HASH, pool.pins[piece] > 0
        state, fill, copying, owner = pool.state[piece], pool.fill[piece], pool.copies[piece] > 0, pool.owner[piece]
        idle = np.where(pinned, PINNED, np.where(hashed, CACHED, FREE))
        expected = np.where(refs == 0, idle, np.where(refs == 1, ACTIVE, SHARED))
        expected = np.where(pool.incoming[piece] | (refs == 0) & copying, TRANSFER, expected)
        resting = (refs == 0) & ~copying & ~pinned
        full = pool.sealed[piece] & (fill == pool.block_size)
        rules = {
            "is in another state than its books say": state != expected,
            "has an owner or lacks one": (refs == 0) != (owner == NOBODY),
            "is in the free list wrongly, or lost": pool.free_list.members(first, end) != (resting & ~hashed),
            "is in the order of eviction wrongly, or lost": pool.evictable.members(first, end) != (resting & hashed),
            "is free and not empty": (state == FREE) & (fill != 0),
            "is cached and not full": ((state == CACHED) | (state == PINNED)) & (fill != pool.block_size),
            "has a hash and is not complete": hashed & ~full,
        }
        found = [
            f"block {first + place} ({BLOCK_STATES[state[place]]}) {what}"
            for what, wrong in rules.items()
            for place in np.flatnonzero(wrong).tolist()
        ]
        found += [f"block {b} is out of place in the free list" for b in pool.free_list.unlinked(first, end)]
        found += [f"block {b} is out of place in the order of eviction" for b in pool.evictable.unlinked(first, end)]
        running = {request.num for request in self._roster.running}
        for num in np.unique(owner[owner != NOBODY]).tolist():
            if num not in running:
                found.append(f"a block from {first} on is owned by request {num}, which does not run")
        for place in np.flatnonzero(refs > 1).tolist():
            sharers = pool.sharers.get(first + place, ())
            if len(sharers) != refs[place] or min(sharers) != owner[place]:
                found.append(
                    f"block {first + place} counts {refs[place]} references, its sharers are {sorted(sharers)}"
                )
        for place in np.flatnonzero(hashed).tolist():
            if not pool.index.holds(pool.hash_of(first + place), first + place):
                found.append(f"block {first + place} has a hash by which it is not found")
        return found

    def _sums(self) -> Iterator[list[str]]:
        """What has to be counted at one moment; each count is a fraction of a millisecond even at a million blocks."""
        pool, roster = self._roster.pool, self._roster
        held = sum(len(request.block_table) - request.holes for request in roster.running)
        yield _differ("references in block tables", held, int(pool.refs.sum()))
        for code, name in enumerate(BLOCK_STATES):
            yield _differ(f"{name} blocks", int(np.count_nonzero(pool.state == code)), pool.counts[code])
        yield _differ("blocks in all states", sum(pool.counts), pool.total)
        yield _differ("free blocks", len(pool.free_list), pool.counts[FREE])
        yield _differ("evictable blocks", len(pool.evictable), pool.counts[CACHED])
        yield _differ("blocks with a hash", int(np.count_nonzero(pool.hash)), len(pool.index))
        yield _differ("pinned blocks", int(np.count_nonzero(pool.pins)), pool.pinned_total)
        yield _differ("shared blocks", len(pool.sharers), int(np.count_nonzero(pool.refs > 1)))
        yield _differ(
            "blocks whose copies must end first",
            int(np.count_nonzero((pool.copies > 0) & (pool.refs == 0) & (pool.pins == 0))),
            pool.leaving,
        )
        for group, counted in enumerate(pool.group_tokens):
            in_use = (pool.refs > 0) & (pool.group == group)
            yield _differ(f"tokens in use of group {group}", int(np.dot(pool.fill, in_use)), counted)
        promised = sum(request.reserved_blocks for request in roster.running)
        # In one piece: until the next, promises may have been kept, and both numbers be less.
        found = _differ("promised blocks", promised, roster.promised.blocks)
        if promised > pool.available:
            found.append(f"{promised} blocks are promised to running requests, only {pool.available} are available")
        yield found


def _differ(what: str, counted: int, told: int) -> list[str]:
    return [] if counted == told else [f"{counted} {what}, the books say {told}"]
