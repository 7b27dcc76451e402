"""Which blocks come to the device ahead of the request that wants them: those of the queue's head, under prefetch=queue_head.

They come as cached blocks that nobody holds, for whoever hits them first. What running requests were promised, or may need
in the next iteration, is never taken for them.
"""

from engine.memory.places import complete_places
from engine.memory.prefix import extend_hashes
from engine.policies.policy_set import PolicySet
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling.admission import find_prefix
from engine.scheduling.output import HeadVerdict
from engine.scheduling.roster import Roster
from engine.tiers.books import TierBooks
from engine.tiers.tiers import Tiers
from engine.words import counted

AT_ONCE = 8
"""Blocks of one KV group under way at the same time, at most."""

WAITS = ("max_running", "needs_blocks", "token_budget", "batch_running", "resume_gate")
"""Verdicts under which the head may wait for long, and nobody waits for memory that copies hold."""


def held_back(tiers: Tiers, head: Request, policies: PolicySet) -> HeadVerdict | None:
    """The verdict on a head while blocks of its prefix are under way: admitted now, it would load or compute them too."""
    if not policies.prefix_cache or head.num in tiers.swapped or not (count := tiers.prefetches.coming_for(head)):
        return None
    verb = "is" if count == 1 else "are"
    return HeadVerdict(
        head,
        "transfer",
        f"{counted(count, 'block')} of its prefix {verb} on the way to the device ahead of its start",
        rule=policies.rule("prefetch"),
    )


def bring_ahead(roster: Roster, tiers: Tiers, verdict: HeadVerdict | None, now: float) -> None:
    """Begin to bring what directly continues the part of the head's prefix that the device has, if the head must wait
    (``verdict``)."""
    policies, pool = roster.regime.policies, roster.pool
    if policies.prefetch == "off" or not policies.prefix_cache or policies.offload == "off":
        return
    if verdict is None or verdict.code not in WAITS or verdict.request.num in tiers.swapped:
        return
    head, groups = verdict.request, pool.groups
    table = find_prefix(head, pool)
    hits = [block for block in table if block != NULL_BLOCK]
    room = min(_memory(roster, hits), AT_ONCE * groups - len(tiers.prefetches.under_way), tiers.room // 2)
    end = min(complete_places(pool, len(head.token_ids) - 1), len(table) + AT_ONCE * groups)
    hashes = extend_hashes(head, end, pool.block_size, groups)
    keep = set(hits)
    for first in range(len(table), end, groups):
        found = _lacking(tiers, head, hashes, range(first, first + groups), keep)
        if found is None or len(found) > room:
            return
        for place, books, slot in found:
            block = pool.expect(now, place % groups, keep)
            if block is None:
                return
            tiers.prefetches.bring(head, place, block, books, slot, now)
            room -= 1


def _memory(roster: Roster, hits: list[int]) -> int:
    """Blocks that can be taken: beyond the head's own hits, what is promised, and one more block for each that runs."""
    pool = roster.pool
    own = sum(map(pool.is_evictable, hits))
    return pool.available - own - roster.promised.blocks - len(roster.running) * pool.groups


def _lacking(
    tiers: Tiers, head: Request, hashes: list[int], places: range, keep: set[int]
) -> list[tuple[int, TierBooks, int]] | None:
    """Where the blocks of these places lie that the device lacks; those it has are added to ``keep``. None where one lies
    nowhere, is coming to somebody else, or has come before and was given up."""
    found = []
    for place in places:
        hash_ = hashes[place]
        if (block := tiers.pool.lookup(hash_)) is not None:
            keep.add(block)
        elif not tiers.prefetches.is_coming(hash_):
            at = tiers.loads.lookup(hash_)
            if at is None or tiers.loads.is_coming(hash_) or tiers.prefetches.was_asked(head, hash_):
                return None
            found.append((place, *at))
    return found
