"""The ledger: whether the scheduler's and the pool's books agree, worked out anew from the block tables.

Checked after every operation in tests and every so often in the running engine. It trusts no counter: what can be
recounted is recounted. O(blocks), vectorised, except for one walk along the free list.
"""

import numpy as np
from numpy.typing import NDArray

from engine.memory.blocks import ACTIVE, CACHED, FREE, NOBODY, PINNED, SHARED, TRANSFER
from engine.memory.pins import Pins, pin_violations
from engine.memory.places import first_needed_place
from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH
from engine.requests.request import NULL_BLOCK, Request, RequestState
from engine.scheduling.beam_blocks import blocks_of_parked
from engine.scheduling.roster import Roster
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
    found += _numbers_in_range(tables, pool)
    found += [wrong for request in tables for wrong in _given_up(request, pool)]
    if found:
        # What follows counts by block number; with wrong tables it would only repeat the complaint.
        return _cut(found)
    refs = _references(tables, pool.total)
    found += _holders(tables, refs, pool)
    found += [wrong for request in tables for wrong in _groups(request, pool)]
    found += _free_list(refs, pool)
    found += _states(refs, pool)
    found += _contents(tables, pool)
    found += _hashes(tables, pool)
    found += _gauges(refs, pool)
    found += _promises(roster)
    found += _beams(roster)
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
        if request.state not in (RequestState.PREFILL, RequestState.DECODE, RequestState.LOADING):
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


def _numbers_in_range(tables: list[Request], pool: BlockPool) -> list[str]:
    found = []
    for request in tables:
        wrong = [block for block in request.held if not 0 <= block < pool.total]
        if wrong:
            found.append(f"request {request.id} holds block {wrong[0]}, which the pool does not have")
        elif len(set(request.held)) != len(request.held):
            found.append(f"request {request.id} has one block at two places of its table")
    return found


def _given_up(request: Request, pool: BlockPool) -> list[str]:
    """Only what no layer of its group sees again has been given up, and of each group one piece at the front."""
    table, found = request.block_table, []
    if len(table) % pool.groups:
        found.append(f"request {request.id} has {len(table)} places in its table, of {pool.groups} groups each")
    if (holes := table.count(NULL_BLOCK)) != request.holes:
        found.append(f"request {request.id} has given up {holes} blocks, but it counts {request.holes}")
    for group in range(pool.groups):
        part = table[group :: pool.groups]
        gone, needed = part.count(NULL_BLOCK), first_needed_place(pool, group, request.computed_tokens) // pool.groups
        if any(block != NULL_BLOCK for block in part[:gone]):
            found.append(f"request {request.id} has given up blocks of group {group} behind some that it still holds")
        if gone > needed:
            first = needed * pool.block_size
            found.append(
                f"request {request.id} has given up {gone} blocks of group {group}, but still needs position {first}"
            )
    return found


def _groups(request: Request, pool: BlockPool) -> list[str]:
    """Each block holds tokens of the group in whose place it stands."""
    expected = _held_places(request) % pool.groups
    actual = pool.group[request.held]
    return [
        f"block {request.held[i]} belongs to group {actual[i]}, but request {request.id} holds it for group {expected[i]}"
        for i in np.flatnonzero(actual != expected).tolist()
    ]


def _held_places(request: Request) -> NDArray[np.int64]:
    """The places of `Request.held`."""
    return np.flatnonzero(np.array(request.block_table, dtype=np.int64) != NULL_BLOCK)


def _named(place: int, pool: BlockPool) -> str:
    """How a place of a table is told."""
    block, group = divmod(place, pool.groups)
    return f"block {block}" if pool.groups == 1 else f"block {block} of group {group}"


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


def _contents(tables: list[Request], pool: BlockPool) -> list[str]:
    """A table's blocks hold exactly the request's computed tokens, and idle blocks are full or empty."""
    found = []
    size = pool.block_size
    for request in tables:
        held, held_at = request.held, _held_places(request)
        starts = held_at // pool.groups * size
        expected = np.clip(request.computed_tokens - starts, 0, size)
        fill = pool.fill[held]
        for i in np.flatnonzero(fill != expected).tolist():
            found.append(
                f"block {held[i]} holds {fill[i]} tokens, but as {_named(held_at[i], pool)} of request {request.id} it "
                f"should hold {expected[i]}"
            )
        if request.computed_tokens > pool.tokens_in(len(request.block_table)) or request.computed_tokens > len(
            request.token_ids
        ):
            found.append(
                f"request {request.id} has {request.computed_tokens} computed tokens in {len(request.block_table)} blocks"
            )
    for state, fill_then in ((FREE, 0), (CACHED, size), (PINNED, size)):
        for block in np.flatnonzero((pool.state == state) & (pool.fill != fill_then)).tolist():
            found.append(f"block {block} is {BLOCK_STATES[state]} and holds {pool.fill[block]} tokens")
    return found


def _hashes(tables: list[Request], pool: BlockPool) -> list[str]:
    """The index and the blocks' hashes say the same, and what a block is found by is what its holder computed."""
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
    for request in tables:
        held, held_at = request.held, _held_places(request)
        chained = request.chained * pool.groups
        if chained > min(len(request.hashes), len(request.block_table)):
            found.append(
                f"request {request.id} has {request.chained} chained blocks, but not so many hashes and blocks"
            )
            continue
        # What continues the chain can be found, and nothing else.
        expected = np.zeros(len(request.block_table), np.uint64)
        expected[:chained] = request.hashes[:chained]
        actual, expected = pool.hash[held], expected[held_at]
        for i in np.flatnonzero(actual != expected).tolist():
            found.append(
                f"block {held[i]} has the hash {actual[i]:016x}, but {_named(held_at[i], pool)} of request {request.id} "
                f"is {expected[i]:016x}"
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


def _beams(roster: Roster) -> list[str]:
    """A search runs or waits as one, its beams are as long as each other and different."""
    found = []
    beams = {id(r.beam): r.beam for r in roster.requests.values() if r.beam is not None}
    for beam in beams.values():
        name, awake = beam.leader.id, beam.awake
        runs = beam.leader in roster.running
        if roster.requests.get(beam.leader.num) is not beam.leader or beam.ended:
            found.append(f"beams of {name} are live without their leader")
        listed = [r for r in roster.running if r.beam is beam]
        if sorted(r.num for r in listed) != (sorted(r.num for r in awake) if runs else []) or (
            not runs and awake != [beam.leader]
        ):
            found.append(f"of {name} the beams {[r.id for r in awake]} are awake, but {[r.id for r in listed]} run")
        for member in beam.leader.samples:
            if member.block_table or member.computed_tokens or member.reserved_blocks or member.num in roster.requests:
                found.append(f"beam {member.id} is parked, but it holds blocks or is listed")
        if len({len(member.token_ids) for member in beam.live}) != 1:
            found.append(f"the beams of {name} differ in length")
        if len({tuple(member.token_ids) for member in beam.live}) != len(beam.order):
            found.append(f"two beams of {name} are the same")
        waits = [lane for lane in beam.order if beam.members[lane] in awake and not beam.members[lane].remaining]
        if sorted(beam.reported) != sorted(waits):
            found.append(
                f"of {name} the lanes {sorted(waits)} wait for the search, {sorted(beam.reported)} have reported"
            )
    return found


def _promises(roster: Roster) -> list[str]:
    """Reserved blocks add up, each running request is promised what the rule says, and promises can be kept."""
    found = []
    pool, rule = roster.pool, roster.regime.capacity
    total = sum(request.reserved_blocks for request in roster.requests.values())
    if total != roster.promised.blocks:
        found.append(f"requests are promised {total} blocks, the scheduler counts {roster.promised.blocks}")
    for request in roster.running:
        more = pool.blocks_for(request.kv_limit) - len(request.block_table) + request.forked_tail * pool.groups
        more += blocks_of_parked(request, pool)
        due = more if rule.reserves else 0
        if request.reserved_blocks != due:
            found.append(
                f"request {request.id} is promised {request.reserved_blocks} blocks; capacity={rule.name} owes it {due}"
            )
    if total > pool.available:
        found.append(f"{total} blocks are promised to running requests, only {pool.available} are available")
    return found
