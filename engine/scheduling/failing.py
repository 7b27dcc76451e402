"""A request whose own row failed, or the batch it was in: it ends, and nobody goes on from what was computed for it."""

from collections.abc import Sequence

from engine.memory.pins import Pins
from engine.memory.prefix import NO_HASH
from engine.requests.batch import BatchItem
from engine.requests.members import awake_of
from engine.requests.request import NULL_BLOCK, FinishReason, Request
from engine.scheduling.beam_steps import end
from engine.scheduling.roster import ADMITTED_STATES, Roster


def fail(roster: Roster, pins: Pins, request: Request, why: str, now: float) -> list[Request]:
    """``request`` ends with an error, and its beams. Returns those of them that viewers know of.

    What it computed may be the reason: the blocks that it holds, shared ones too, cannot be found any more, nor can what
    others compute behind them; pins of such blocks are undone, which the error says.
    """
    members = [request] if request.beam is None else request.beam.seen
    undone = _forget(roster, pins, {block for member in awake_of(request) for block in member.held})
    if roster.tiers is not None:
        roster.tiers.forget({hash_ for member in awake_of(request) for hash_ in member.hashes})
    end(roster, request, FinishReason.ERROR, now, f"{why}; {', '.join(undone)} unpinned" if undone else why)
    return members


def fail_items(roster: Roster, items: Sequence[BatchItem] | None, why: str, now: float) -> list[Request]:
    """These items could not be computed: all of them end with an error, or (None) all that run. Returns them."""
    finished: list[Request] = []
    for request in list(roster.running) if items is None else [item.request for item in items]:
        if request.state in ADMITTED_STATES:
            members = [request] if request.beam is None else request.beam.seen
            end(roster, request, FinishReason.ERROR, now, why)
            finished += members
    return finished


def _forget(roster: Roster, pins: Pins, blocks: set[int]) -> list[str]:
    """What these blocks hold is not found by its hash from now on. Returns the names of the pins that this undoes."""
    pool = roster.pool
    gone = {block for block in blocks if pool.hash_of(block) != NO_HASH}
    grown = True
    while grown:
        grown = False
        for other in roster.running:
            # A chain that breaks ends there: what is behind cannot be found either, in whatever table it stands.
            table, end_of_chain = other.block_table, other.chained * pool.groups
            cut = next((place for place in range(end_of_chain) if table[place] in gone), end_of_chain)
            other.chained = cut // pool.groups
            behind = {block for block in table[other.chained * pool.groups : end_of_chain] if block != NULL_BLOCK}
            grown = grown or not behind <= gone
            gone |= behind
    undone = [pin.name for pin in pins.by_name.values() if not gone.isdisjoint(pin.blocks)]
    for name in undone:
        pins.unpin(name)
    if roster.tiers is not None:
        roster.tiers.forget({pool.hash_of(block) for block in gone})
    for block in gone:
        pool.forget(block)
    return undone
