"""Waiting requests start, in queue order, up to the first that must wait."""

from engine.memory.partial import PARTS, Part, PartialIndex
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BlockCopy
from engine.requests.members import width_taken
from engine.requests.request import NULL_BLOCK, FinishReason, Request, RequestState
from engine.scheduling import lookahead, tiering
from engine.scheduling.admission import never_fits, weigh
from engine.scheduling.beam_steps import end
from engine.scheduling.draft import Draft
from engine.scheduling.growing import assign
from engine.scheduling.output import Admission, HeadVerdict
from engine.scheduling.progress import retain
from engine.scheduling.roster import Roster
from engine.scheduling.transition import pending_text
from engine.scheduling.verdict import (
    above_resume_gate,
    after_preemption,
    batch_running,
    draining,
    no_tokens_left,
    too_little_room,
    too_many_running,
    waiting_for_copies,
)
from engine.tiers.tiers import Tiers


def admit_waiting(roster: Roster, partial: PartialIndex, draft: Draft, now: float) -> HeadVerdict | None:
    """Start requests in queue order up to the first that must wait; the verdict on that one."""
    regime, pool, running = roster.regime, roster.pool, roster.running
    policies, rule = regime.policies, regime.capacity
    batch_runs = rule.one_batch and bool(running)
    while (head := roster.waiting.head) is not None:
        if (verdict := _stops_all(roster, head, draft)) is not None:
            return verdict
        if (why := never_fits(head, pool, rule, lookups=policies.prefix_cache)) is not None:
            end(roster, head, FinishReason.ERROR, now, why)
            draft.rejected.append((head, why))
            continue
        if batch_runs:
            return batch_running(head, len(running), policies)
        if (taken := width_taken(running)) + width_taken([head]) > policies.max_running and running:
            return too_many_running(head, taken, policies)
        if draft.budget == 0 and not rule.one_batch:
            return no_tokens_left(head, policies)
        if running and (verdict := above_resume_gate(head, policies, pool)) is not None:
            return verdict
        if roster.tiers is not None and (verdict := _awaits_copies(roster.tiers, head, policies)) is not None:
            return verdict
        offer = weigh(
            head,
            pool,
            rule,
            policies,
            reserved=roster.promised.blocks,
            alone=not running,
        )
        if not offer.fits:
            return too_little_room(head, offer, policies)
        _start(roster, partial, head, offer.hits, draft, now)
    return None


def _awaits_copies(tiers: Tiers, head: Request, policies: PolicySet) -> HeadVerdict | None:
    """The verdict on a head that has to wait for copies between tiers that concern itself."""
    return tiering.held_back(tiers, head, policies) or lookahead.held_back(tiers, head, policies)


def _stops_all(roster: Roster, head: Request, draft: Draft) -> HeadVerdict | None:
    """The verdict when this iteration admits nobody, whatever the head needs."""
    pool, policies = roster.pool, roster.regime.policies
    if roster.regime.paused:
        return HeadVerdict(head, "paused", "resume to go on")
    if roster.regime.switching:
        return HeadVerdict(head, "draining", pending_text(roster) or "draining", rule=policies.rule("kv_dtype"))
    if roster.regime.draining:
        return draining(
            head,
            never_fits(head, pool, roster.regime.wanted_capacity, lookups=policies.prefix_cache),
            pending_text(roster),
            policies,
            pool,
        )
    if draft.stalled:
        return waiting_for_copies(head, draft.stalled[0], policies, pool)
    if draft.preempted:
        return after_preemption(head, draft.preempted, policies, pool)
    return None


def _start(roster: Roster, partial: PartialIndex, request: Request, hits: list[int], draft: Draft, now: float) -> None:
    """Admit ``request``: it shares its prefix hits, is promised what the rule promises, and gets tokens."""
    pool, policies = roster.pool, roster.regime.policies
    roster.admit(request)
    request.block_table = list(hits)
    request.holes = hits.count(NULL_BLOCK)
    for block in request.held:
        pool.share(block, request.num, now)
    request.chained = len(hits) // pool.groups
    retain(request, 0, len(hits), pool, now)
    request.computed_tokens = request.cached = pool.tokens_in(len(hits))
    waited = max(0.0, now - request.times.since)
    request.enter(RequestState.PREFILL, now)
    request.started = now
    request.kv_dtype = roster.regime.kv_types.in_force
    request.admissions += 1
    roster.totals.admissions += 1
    if request.is_at_first_admission and policies.prefix_cache:
        roster.totals.prefix_query_tokens += request.prompt_tokens
        roster.totals.prefix_hit_tokens += request.cached
    if roster.regime.capacity.reserves:
        roster.promised.make(request)
    if roster.tiers is not None:
        tiering.hit(roster, roster.tiers, hits, now)
    loading = roster.tiers is not None and tiering.begin_load(roster, roster.tiers, request, now)
    if not loading and policies.prefix_cache and (find := PARTS.get(policies.partial_reuse)) is not None:
        part = find(partial, request, roster.tiers is not None)
        if part is not None:
            _reuse(roster, request, part, now)
    count = 0 if loading else min(request.remaining, draft.budget)
    if count:
        assign(roster, request, count, draft, now)
    draft.admitted.append(Admission(request, request.cached, len(request.held), waited, request.admissions == 1))


def _reuse(roster: Roster, request: Request, part: Part, now: float) -> None:
    """``request``, just admitted with its prefix hits, goes on with a part of another block, or in that block itself,
    which takes the place of one that it would have taken. The part counts as a prefix hit."""
    pool, first = roster.pool, len(request.block_table)
    if part.in_place:
        for block in part.blocks:
            pool.reclaim(block, request.num, part.tokens, now)
            request.block_table.append(block)
            roster.promised.keep(request)
    else:
        for block in part.blocks:
            pool.share(block, request.num, now)
        roster.extend_table(request, first + pool.groups, now)
        for block, own in zip(part.blocks, request.block_table[first:], strict=True):
            pool.release(block, request.num, now)
            pool.write(own, part.tokens, now)
            why = f"begins with the same {part.tokens} tokens"
            roster.copies.add(request, BlockCopy(block, own, part.tokens), why)
    request.computed_tokens += part.tokens
    request.cached = request.computed_tokens
    if request.is_at_first_admission:
        roster.totals.prefix_hit_tokens += part.tokens
