"""The ledger: whether the scheduler's and the pool's books agree, worked out anew from the block tables.

Checked after every operation in tests and every so often in the running engine. It trusts no counter: what can be
recounted is recounted. O(blocks), vectorised, except for one walk along the free list.
"""

import numpy as np
from numpy.typing import NDArray

from engine.memory.blocks import ACTIVE, CACHED, FREE, NOBODY, PINNED, SHARED, TRANSFER
from engine.memory.pins import Pins, pin_violations
from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH
from engine.requests.request import Request, RequestState
from engine.scheduling.invariants import beams, promise, table_contents, table_shape
from engine.scheduling.roster import ADMITTED_STATES, Roster
from engine.tiers.ledger import tier_violations
from kvtop.protocol import BLOCK_STATES

REPORTED = 20
"""Violations told one by one; of the rest only their number."""


def violations(roster: Roster, pins: Pins) -> list[str]:
    """What is wrong, a sentence each, naming block and request; empty when all is well."""
    pool = roster.pool
    found: list[str] = []
    tables = [r for r in roster.requests.values() if r.block_table]
    found += _queues(roster)
    found += [wrong for request in tables for wrong in table_shape(request, pool)]
    if found:
        # What follows counts by block number; with wrong tables it would only repeat the complaint.
        return _cut(found)
    refs = _references(tables, pool.total)
    found += _holders(tables, refs, pool)
    found += [wrong for request in tables for wrong in table_contents(request, pool)]
    found += _free_list(refs, pool)
    found += _states(refs, pool)
    found += _idle(pool)
    found += _index(tables, pool)
    found += _gauges(refs, pool)
    found += _promises(roster)
    found += [wrong for request in roster.running for wrong in promise(request, roster)]
    found += beams(roster)
    found += pin_violations(pins, pool)
    if roster.tiers is not None:
        found += tier_violations(roster.tiers, roster.requests)
    elif np.any(pool.copies):
        found.append("blocks are in transfer, but there is no tier to copy to or from")
    return _cut(found)


def _cut(found: list[str]) -> list[str]:
    if len(found) <= REPORTED:
        return found
    return [*found[:REPORTED], f"and {len(found) - REPORTED} more violations"]


def _queues(roster: Roster) -> list[str]:
    """Each live request is in exactly one of the two lists, and only running ones hold anything."""
    found = []
    running, waiting = list(roster.running), list(roster.waiting)
    listed = sorted(r.num for r in [*running, *waiting])
    if listed != sorted(roster.requests):
        found.append(f"live requests are {sorted(roster.requests)}, but running and waiting lists hold {listed}")
    for request in running:
        if request.state not in ADMITTED_STATES:
            found.append(f"request {request.id} is in the running list but is {request.state}")
    for request in waiting:
        if request.state not in (RequestState.WAITING, RequestState.PREEMPTED):
            found.append(f"request {request.id} is in the waiting list but is {request.state}")
        if request.block_table or request.computed_tokens or request.reserved_blocks:
            found.append(
                f"request {request.id} waits but has {len(request.block_table)} blocks, {request.computed_tokens} computed "
                f"tokens and {request.reserved_blocks} reserved blocks"
            )
    preempted = sum(request.state is RequestState.PREEMPTED for request in waiting)
    if roster.waiting.preempted != preempted:
        found.append(f"{preempted} preempted requests wait, the queue counts {roster.waiting.preempted}")
    return found


def _references(tables: list[Request], blocks: int) -> NDArray[np.int64]:
    if not tables:
        return np.zeros(blocks, np.int64)
    held = np.concatenate([np.array(request.held, dtype=np.int64) for request in tables])
    return np.bincount(held, minlength=blocks)


def _who(tables: list[Request], block: int) -> str:
    names = [request.id for request in tables if block in request.block_table]
    return ("request " if len(names) == 1 else "requests ") + ", ".join(names) if names else "no request"


def _holders(tables: list[Request], refs: NDArray[np.int64], pool: BlockPool) -> list[str]:
    found = [
        f"block {block} counts {pool.refs[block]} references, but it is in {refs[block]} tables, of "
        f"{_who(tables, block)}"
        for block in np.flatnonzero(pool.refs != refs).tolist()
    ]
    first = np.full(pool.total, NOBODY, np.int64)
    for request in sorted(tables, key=lambda r: -r.num):
        first[request.held] = request.num
    found += [
        f"block {block} names {pool.owner[block]} as its owner, but the first to hold it is {first[block]}, of "
        f"{_who(tables, block)}"
        for block in np.flatnonzero(pool.owner != first).tolist()
    ]
    several = np.flatnonzero(refs > 1)
    for block in several[~(pool.sealed[several] & (pool.fill[several] == pool.block_size))].tolist():
        found += _shared_unsealed(block, [request for request in tables if block in request.block_table], pool)
    if sorted(pool.sharers) != several.tolist():
        found.append("the pool's record of sharers names other blocks than those that are shared")
    else:
        for request in tables:
            for block in request.held:
                if refs[block] > 1 and request.num not in pool.sharers[block]:
                    found.append(f"block {block} is held by request {request.id}, who is not among its sharers")
    return found


def _shared_unsealed(block: int, holders: list[Request], pool: BlockPool) -> list[str]:
    """Only samples of one prompt may share a block that is not sealed, and none of them may have written it since."""
    who, fill = "requests " + ", ".join(request.id for request in holders), int(pool.fill[block])
    first = holders[0]
    if any(request.first_sample is None or request.first_sample != first.first_sample for request in holders):
        return [
            f"block {block} is in the tables of {who} though it can still be written "
            f"({fill} of {pool.block_size} tokens)"
        ]
    found = []
    start = first.block_table.index(block) // pool.groups * pool.block_size
    held = first.token_ids[start : start + fill]
    for request in holders:
        own = request.block_table.index(block) // pool.groups * pool.block_size
        if own != start or request.token_ids[own : own + fill] != held:
            found.append(f"block {block} was written while it is shared: {who} have other tokens in its place")
            break
    unready = [r for r in holders if start < r.computed_tokens < start + pool.block_size and not r.forked_tail]
    # Of beams the last one to write finds nobody else in the block.
    for request in unready[: -1 if first.beam is not None else None]:
        found.append(f"block {block} is about to be written by {request.id}, who shares it and plans no copy")
    return found


def _free_list(refs: NDArray[np.int64], pool: BlockPool) -> list[str]:
    """Every block nobody holds is either free or in the order of eviction, once and at its place, and no other is."""
    free, cached = (np.fromiter(blocks, dtype=np.int64) for blocks in (pool.free_list, pool.evictable))
    times = np.bincount(np.concatenate([free, cached]), minlength=pool.total)
    found = []
    for block in np.flatnonzero((times > 0) & (pool.refs != 0) | (times > 0) & (refs != 0)).tolist():
        found.append(f"block {block} is in the free list while {refs[block]} tables hold it")
    for block in np.flatnonzero(times > 1).tolist():
        found.append(f"block {block} is in the free list {times[block]} times, the order of eviction included")
    for block in np.flatnonzero((times > 0) & (pool.pins > 0)).tolist():
        found.append(f"block {block} can be taken although it is pinned")
    for block in np.flatnonzero((times == 0) & (refs == 0) & (pool.copies == 0) & (pool.pins == 0)).tolist():
        found.append(f"block {block} is lost: no request holds it and it is not in the free list")
    for name, blocks, walked, has_hash in (
        ("free list", pool.free_list, free, False),
        ("order of eviction", pool.evictable, cached, True),
    ):
        if len(walked) != len(blocks):
            found.append(f"the {name} counts {len(blocks)} blocks, a walk finds {len(walked)}")
        for block in walked[(pool.hash[walked] != NO_HASH) != has_hash].tolist():
            found.append(f"block {block} is in the {name}, but it has {'no' if has_hash else 'a'} hash")
    for block in pool.evictable.misplaced():
        found.append(f"block {block} stands at a wrong place in the order of eviction ({pool.eviction})")
    return found


def _states(refs: NDArray[np.int64], pool: BlockPool) -> list[str]:
    idle = np.where(pool.pins > 0, PINNED, np.where(pool.hash != NO_HASH, CACHED, FREE))
    expected = np.where(refs == 0, idle, np.where(refs == 1, ACTIVE, SHARED))
    expected = np.where(pool.incoming | (refs == 0) & (pool.copies > 0), TRANSFER, expected)
    return [
        f"block {block} is marked {BLOCK_STATES[pool.state[block]]}, but it is {BLOCK_STATES[expected[block]]}"
        for block in np.flatnonzero(pool.state != expected).tolist()
    ]


def _idle(pool: BlockPool) -> list[str]:
    """Blocks that nobody holds are full or empty."""
    found, size = [], pool.block_size
    for state, fill_then in ((FREE, 0), (CACHED, size), (PINNED, size)):
        for block in np.flatnonzero((pool.state == state) & (pool.fill != fill_then)).tolist():
            found.append(f"block {block} is {BLOCK_STATES[state]} and holds {pool.fill[block]} tokens")
    return found


def _index(tables: list[Request], pool: BlockPool) -> list[str]:
    """The index and the blocks' hashes say the same, of complete blocks."""
    found = []
    pairs = list(pool.index.pairs())
    for hash_, block in pairs:
        if pool.hash_of(block) != hash_:
            found.append(
                f"the prefix index finds block {block} by {hash_:016x}, its hash is {pool.hash_of(block):016x}"
            )
    hashed = pool.hash != NO_HASH
    if not len(pairs) == len(pool.index) == np.count_nonzero(hashed):
        found.append(
            f"{np.count_nonzero(hashed)} blocks have a hash, the prefix index holds {len(pairs)} and counts "
            f"{len(pool.index)}"
        )
    for block in np.flatnonzero(hashed & ~(pool.sealed & (pool.fill == pool.block_size))).tolist():
        found.append(
            f"block {block} of {_who(tables, block)} has a hash but only {pool.fill[block]} of {pool.block_size} tokens"
        )
    return found


def _gauges(refs: NDArray[np.int64], pool: BlockPool) -> list[str]:
    found = []
    for state, count in enumerate(np.bincount(pool.state, minlength=len(BLOCK_STATES)).tolist()):
        if pool.counts[state] != count:
            found.append(f"{count} blocks are {BLOCK_STATES[state]}, the gauge says {pool.counts[state]}")
    total = sum(pool.counts[state] for state in (FREE, CACHED, ACTIVE, SHARED, PINNED, TRANSFER))
    if total != pool.total:
        found.append(
            f"free + cached + active + shared + pinned + in transfer is {total}, the pool has {pool.total} blocks"
        )
    leaving = np.count_nonzero((refs == 0) & (pool.copies > 0) & (pool.pins == 0))
    if pool.leaving != leaving:
        found.append(f"{leaving} blocks wait for copies to end before they can be taken, the gauge says {pool.leaving}")
    for group, counted in enumerate(pool.group_tokens):
        tokens = int(pool.fill[(refs > 0) & (pool.group == group)].sum())
        if counted != tokens:
            found.append(f"blocks in use of group {group} hold {tokens} tokens, the gauge says {counted}")
    return found


def _promises(roster: Roster) -> list[str]:
    """Reserved blocks add up, and promises can be kept."""
    found = []
    total = sum(request.reserved_blocks for request in roster.requests.values())
    if total != roster.promised.blocks:
        found.append(f"requests are promised {total} blocks, the scheduler counts {roster.promised.blocks}")
    if total > roster.pool.available:
        found.append(f"{total} blocks are promised to running requests, only {roster.pool.available} are available")
    return found
