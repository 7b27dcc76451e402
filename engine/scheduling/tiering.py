"""What the scheduler does with the tiers below the device: whose blocks come back, what goes out, and who waits for it.

Most functions are for an engine that has tiers. They decide; `engine.tiers` keeps the books and moves the blocks.
"""

from collections.abc import Sequence

from engine.memory.places import complete_places
from engine.memory.prefix import NO_HASH, extend_hashes
from engine.policies.offload import AHEAD, MIN_PRIORITY, REUSES
from engine.policies.policy_set import PolicySet
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.requests.request import NULL_BLOCK, Request, RequestState
from engine.scheduling.output import HeadVerdict
from engine.scheduling.roster import Roster
from engine.tiers.request_kv import Loaded
from engine.tiers.tiers import Tiers
from engine.words import counted

SPARE_SHARE = 16
"""Storing ahead of eviction keeps one block of so many free."""

AHEAD_AT_ONCE = 8
"""Blocks copied out ahead of eviction at the same time."""


def settle(roster: Roster, tiers: Tiers, now: float) -> None:
    """Book the copies that have ended; requests whose blocks have come go on."""
    for loaded in tiers.poll(now):
        request = roster.requests.get(loaded.num)
        if request is not None and request.state is RequestState.LOADING:
            _land(roster, tiers, request, loaded, now)


def _land(roster: Roster, tiers: Tiers, request: Request, loaded: Loaded, now: float) -> None:
    pool, table = roster.pool, request.block_table
    size, groups = pool.block_size, pool.groups
    for first in range(loaded.first, loaded.first + loaded.blocks, groups):
        hashes = loaded.hashes[first - loaded.first :][:groups]
        for place in range(first, first + groups):
            pool.write(table[place], min(size, loaded.tokens - place // groups * size), now)
        # As everywhere: a block is found by others only if what it continues can be found.
        if roster.regime.policies.prefix_cache and request.chained * groups == first and NO_HASH not in hashes:
            for place, hash_ in enumerate(hashes, first):
                pool.seal(table[place], hash_, request.hashes[place - groups] if place >= groups else NO_HASH)
            request.chained += 1
    request.computed_tokens = max(request.computed_tokens, loaded.tokens)
    if not loaded.swapped:
        came = pool.tokens_in(loaded.blocks)
        request.cached += came
        if request.is_at_first_admission:
            roster.totals.prefix_hit_tokens += came
            tiers.loaded_tokens += came
    decodes = request.remaining == 1 and request.first_token is not None
    request.enter(RequestState.DECODE if decodes else RequestState.PREFILL, now)


def held_back(tiers: Tiers, head: Request, policies: PolicySet) -> HeadVerdict | None:
    """The verdict on a head whose state cannot be brought back yet; None where that is no hindrance."""
    state = tiers.swapped.get(head.num)
    if state is None:
        return None
    rule = policies.rule("preempt_action")
    if state.leaving:
        left = counted(state.leaving, "block")
        return HeadVerdict(
            head, "transfer", f"{left} of its state are still on their way to {state.books.name}", rule=rule
        )
    if tiers.room < len(state.slots):
        return HeadVerdict(head, "transfer", "the copies under way come first", rule=rule)
    return None


def begin_load(roster: Roster, tiers: Tiers, request: Request, now: float) -> bool:
    """A request that was just admitted gets what the tiers hold for it: its own state, or more of its prefix.

    False where there is nothing to wait for.
    """
    first, pool = len(request.block_table), roster.pool
    if request.num in tiers.swapped:
        blocks = tiers.swaps.blocks(request.num, first)
        if not blocks:
            tiers.drop(request.num, now)  # The prefix cache has kept all of it.
            return False
        roster.extend_table(request, first + blocks, now)
        tiers.loads.load_swapped(request, first, now)
    else:
        if not roster.regime.policies.prefix_cache or roster.regime.policies.offload == "off":
            return False
        complete = complete_places(pool, len(request.token_ids) - 1)
        hashes = extend_hashes(request, complete, pool.block_size, pool.groups)
        places = tiers.loads.find(first, hashes[:complete])
        del places[len(places) - len(places) % pool.groups :]
        if request.is_at_first_admission:
            tiers.loads.count_lookup(complete - first, places)
        del places[tiers.room - tiers.room % pool.groups :]
        if not places:
            return False
        roster.extend_table(request, first + len(places), now)
        tiers.loads.load(request, first, places, now)
    request.enter(RequestState.LOADING, now)
    return True


def swap_out(roster: Roster, victim: Request, tier: str, now: float) -> bool:
    """Begin to copy what ``victim``, which is about to be preempted, has computed to this tier. False where it has to be
    computed again: nothing is worth keeping, or there is no room."""
    tiers = roster.tiers
    # A table with a hole is not swapped: of what slid out of the window nothing is kept, and little is left.
    if tiers is None or victim.state is RequestState.LOADING or not victim.computed_tokens or victim.holes:
        return False
    if roster.copies.awaits(victim):
        return False  # Its blocks do not hold yet what they should.
    books = tiers.named(tier)
    if books is None or not tiers.swaps.room(victim, books):
        tiers.swaps.refuse(victim, tier)
        return False
    tiers.swaps.out(victim, books, now)
    return True


def candidates(roster: Roster, tiers: Tiers) -> Sequence[Request]:
    """Who may be preempted: under tier_full=block only those whose state finds room."""
    policies = roster.regime.policies
    tier = PREEMPT_ACTIONS[policies.preempt_action].tier
    books = None if tier is None else tiers.named(tier)
    if books is None or policies.tier_full != "block":
        return roster.running
    return [
        r for r in roster.running if r.beam is not None or r.state is RequestState.LOADING or tiers.swaps.room(r, books)
    ]


def filled(roster: Roster, tiers: Tiers, request: Request, start: int, end: int, now: float) -> None:
    """Positions ``start … end-1`` were computed: blocks that this completed are stored under offload=on_fill."""
    if roster.regime.policies.offload != "on_fill":
        return
    pool = roster.pool
    for block in request.block_table[complete_places(pool, start) : complete_places(pool, end)]:
        if (hash_ := pool.hash_of(block)) != NO_HASH:
            tiers.offloads.store(block, hash_, now)


def hit(roster: Roster, tiers: Tiers, blocks: list[int], now: float) -> None:
    """A request found these blocks in the device's prefix cache: under offload=by_reuse the often hit are stored."""
    for block in blocks:
        if block != NULL_BLOCK:
            tiers.prefetches.used(block)
    if roster.regime.policies.offload != "by_reuse":
        return
    for block in blocks:
        if block == NULL_BLOCK:
            continue
        # Uses count the table that computed it too.
        if roster.pool.uses[block] > REUSES:
            tiers.offloads.store(block, roster.pool.hash_of(block), now)


def work_ahead(roster: Roster, tiers: Tiers, now: float) -> None:
    """Where few blocks are free, copy out what would be evicted next, so that it is lost to nobody."""
    pool, policies = roster.pool, roster.regime.policies
    if policies.offload not in AHEAD:
        return
    wanted = max(2, pool.total // SPARE_SHARE)
    while (
        pool.cached_blocks and pool.free_blocks + tiers.offloads.ahead < wanted and tiers.offloads.ahead < AHEAD_AT_ONCE
    ):
        # What is promised to running requests must stay available.
        if pool.available <= roster.promised.blocks or not tiers.offloads.room(now):
            return
        block = pool.hold_next_evicted(now)
        hash_ = pool.hash_of(block)
        if tiers.offloads.knows(hash_):
            pool.unhold(block, forget=True)
        elif policies.offload == "by_priority" and pool.priority_of(block, now) < MIN_PRIORITY:
            pool.evictions += 1
            pool.unhold(block, forget=True)
        else:
            tiers.offloads.store_ahead(block, hash_, now)
