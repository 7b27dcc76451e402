"""What must be true of one request's block table, of one promise, and of beams: the parts of the ledger that look at
requests. Each says what is wrong, a sentence each.
"""

import numpy as np
from numpy.typing import NDArray

from engine.memory.places import first_needed_place
from engine.memory.pool import BlockPool
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling.beam_blocks import blocks_of_parked
from engine.scheduling.roster import Roster


def table_shape(request: Request, pool: BlockPool) -> list[str]:
    """Its block numbers exist, each stands there once, and what was given up is what nobody sees again."""
    wrong = [block for block in request.held if not 0 <= block < pool.total]
    if wrong:
        return [f"request {request.id} holds block {wrong[0]}, which the pool does not have"]
    twice = len(set(request.held)) != len(request.held)
    found = [f"request {request.id} has one block at two places of its table"] if twice else []
    return found + _given_up(request, pool)


def table_contents(request: Request, pool: BlockPool) -> list[str]:
    """What its blocks hold, for which group, and by what they are found; its shape is right."""
    return [*_groups(request, pool), *_contents(request, pool), *_hashes(request, pool)]


def promise(request: Request, roster: Roster) -> list[str]:
    """A running request is promised what the capacity rule says."""
    pool, rule = roster.pool, roster.regime.capacity
    more = pool.blocks_for(request.kv_limit) - len(request.block_table) + request.forked_tail * pool.groups
    more += blocks_of_parked(request, pool)
    due = more if rule.reserves else 0
    if request.reserved_blocks == due:
        return []
    return [f"request {request.id} is promised {request.reserved_blocks} blocks; capacity={rule.name} owes it {due}"]


def beams(roster: Roster) -> list[str]:
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


def _contents(request: Request, pool: BlockPool) -> list[str]:
    """Its blocks hold exactly the tokens that it has computed."""
    held, held_at, size = request.held, _held_places(request), pool.block_size
    expected = np.clip(request.computed_tokens - held_at // pool.groups * size, 0, size)
    fill = pool.fill[held]
    found = [
        f"block {held[i]} holds {fill[i]} tokens, but as {_named(held_at[i], pool)} of request {request.id} it "
        f"should hold {expected[i]}"
        for i in np.flatnonzero(fill != expected).tolist()
    ]
    if request.computed_tokens > pool.tokens_in(len(request.block_table)) or request.computed_tokens > len(
        request.token_ids
    ):
        found.append(
            f"request {request.id} has {request.computed_tokens} computed tokens in {len(request.block_table)} blocks"
        )
    return found


def _hashes(request: Request, pool: BlockPool) -> list[str]:
    """What continues its chain can be found by its hashes, and nothing else of it."""
    held, held_at = request.held, _held_places(request)
    chained = request.chained * pool.groups
    if chained > min(len(request.hashes), len(request.block_table)):
        return [f"request {request.id} has {request.chained} chained blocks, but not so many hashes and blocks"]
    by_place = np.zeros(len(request.block_table), np.uint64)
    by_place[:chained] = request.hashes[:chained]
    actual, expected = pool.hash[held], by_place[held_at]
    return [
        f"block {held[i]} has the hash {actual[i]:016x}, but {_named(held_at[i], pool)} of request {request.id} "
        f"is {expected[i]:016x}"
        for i in np.flatnonzero(actual != expected).tolist()
    ]


def _held_places(request: Request) -> NDArray[np.int64]:
    """The places of `Request.held`."""
    return np.flatnonzero(np.array(request.block_table, dtype=np.int64) != NULL_BLOCK)


def _named(place: int, pool: BlockPool) -> str:
    """How a place of a table is told."""
    block, group = divmod(place, pool.groups)
    return f"block {block}" if pool.groups == 1 else f"block {block} of group {group}"
