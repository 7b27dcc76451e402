"""Running requests get their next tokens, and the blocks for them, from others if need be."""

from collections.abc import Sequence

from engine.requests.members import is_one_search, leader_of
from engine.requests.request import FinishReason, Request
from engine.scheduling import tiering
from engine.scheduling.admission import usable_blocks
from engine.scheduling.beam_steps import end
from engine.scheduling.draft import Draft
from engine.scheduling.forking import must_copy, own_tail
from engine.scheduling.preemption import pick_victim, preempt
from engine.scheduling.roster import RUNNING_STATES, Roster
from engine.words import counted


def grow_running(roster: Roster, draft: Draft, now: float, *, force: bool = False) -> None:
    """Each running request gets as many tokens as it lacks and the budget allows, in the order of their start.

    ``force``: see `_make_room`.
    """
    for request in list(roster.running):
        if draft.budget == 0:
            break
        if request.state not in RUNNING_STATES:
            continue  # A victim of one before it.
        if request.remaining == 0:
            continue  # A beam that waits for the others of its search.
        count = min(request.remaining, draft.budget)
        if _make_room(roster, request, request.computed_tokens + count, draft, now, force=force):
            proposed = _worth_trying(roster, request, count, draft.budget) if request.proposed else ()
            assign(roster, request, count, draft, now, proposed)
    if draft.stalled and not draft.items and roster.tiers is not None and not roster.tiers.pending:
        # Everybody waits for room in a tier, and nobody will make any.
        draft.stalled.clear()
        grow_running(roster, draft, now, force=True)


def _make_room(roster: Roster, request: Request, tokens: int, draft: Draft, now: float, *, force: bool = False) -> bool:
    """Preempt until ``request`` can hold ``tokens`` tokens; False when it is out itself or must wait for copies.

    ``force``: even those whose state finds no room in a tier that is full.
    """
    pool = roster.pool
    if pool.blocks_for(tokens) - request.holes > (usable := usable_blocks(pool, request.held)):
        pinned = "" if usable == pool.total else f" that are not pinned for others, of {pool.total}"
        whole = f"the whole pool of {usable} blocks" if not pinned else f"all {usable} blocks{pinned}"
        why = f"{request.id} filled {whole}; its output ends here"
        _cut_off(roster, request, why, draft, now)
        return False
    while (need := _lacking(roster, request, tokens)) > pool.available:
        if roster.regime.capacity.reserves:
            raise RuntimeError(f"{request.id} was promised blocks that are not there; see ledger_violations()")
        victims = roster.running if roster.tiers is None or force else tiering.candidates(roster, roster.tiers)
        if need <= pool.available + pool.leaving or not victims:
            draft.stalled.append(request)
            return False
        if is_one_search(roster.running):
            name, width = leader_of(request).id, len(roster.running)
            why = f"the {width} beams of {name} filled all {usable} blocks that there are; their output ends here"
            _cut_off(roster, request, why, draft, now)
            return False
        pick = pick_victim(victims, roster.regime.policies, request)
        cause = f"{request.id} needs {counted(need, 'block', more=True)}, {pool.available} left; {pick.reason}"
        draft.preempted.append(
            preempt(roster, pick.victim, now, cause, by=request, need=need, protection=pick.protection)
        )
        draft.take_back(pick.victim)
        if request.state not in RUNNING_STATES:
            return False
    return True


def _cut_off(roster: Roster, request: Request, why: str, draft: Draft, now: float) -> None:
    """``request`` ends, and its beams, because there is no room for its next token and never will be."""
    draft.take_back(request)
    members = [request] if request.beam is None else request.beam.seen
    end(roster, request, FinishReason.LENGTH, now, why)
    draft.rejected += [(member, why) for member in members]


def _lacking(roster: Roster, request: Request, tokens: int) -> int:
    """Blocks to be taken before ``request`` can hold ``tokens`` tokens, those for copies of its last included."""
    pool = roster.pool
    return pool.blocks_for(tokens) - len(request.block_table) + must_copy(request, pool)


def _worth_trying(roster: Roster, request: Request, count: int, budget: int) -> Sequence[int]:
    """Of the tokens proposed for ``request``, which gets ``count`` tokens, those that it may need, as far as the budget
    and the blocks that nobody else wants go: nobody is preempted for a guess."""
    pool = roster.pool
    if count < request.remaining or request.beam is not None or request.samples:
        return ()
    end = request.computed_tokens + count
    # The last token it may have is sampled from the row before it.
    most = min(len(request.proposed), budget - count, request.kv_limit - end, roster.max_model_len - 1 - end)
    spare = pool.available - (roster.promised.blocks - request.reserved_blocks)
    while most > 0 and _lacking(roster, request, end + most) > spare:
        most -= 1
    return request.proposed[: max(0, most)]


def assign(
    roster: Roster, request: Request, count: int, draft: Draft, now: float, proposed: Sequence[int] = ()
) -> None:
    """Plan the next ``count`` tokens of ``request``, and ``proposed`` ones, and take the blocks for them; they are there."""
    for copy in own_tail(request, roster.pool, now):
        roster.copies.add(request, copy, "about to write a block that others hold")
    if request.forked_tail:
        request.forked_tail = False
        roster.promised.keep(request, roster.pool.groups)
    if (places := roster.pool.blocks_for(request.computed_tokens + count + len(proposed))) > len(request.block_table):
        roster.extend_table(request, places, now)
    draft.assign(request, count, proposed)
