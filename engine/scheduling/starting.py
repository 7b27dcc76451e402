"""Waiting requests start, in queue order, up to the first that must wait."""

from typing import TYPE_CHECKING

from engine.memory.partial import PARTS
from engine.policies.capacity import CAPACITIES
from engine.policies.policy_set import PolicySet
from engine.requests.beam import places_taken
from engine.requests.request import NO_BLOCK, FinishReason, Request, RequestState
from engine.scheduling import lookahead as prefetch
from engine.scheduling import tiering
from engine.scheduling.admission import never_fits, weigh
from engine.scheduling.draft import Draft
from engine.scheduling.output import Admission, HeadVerdict
from engine.scheduling.progress import retain
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

if TYPE_CHECKING:
    from engine.scheduling.scheduler import Scheduler


def admit_waiting(scheduler: "Scheduler", draft: Draft, now: float) -> HeadVerdict | None:
    """Start requests in queue order up to the first that must wait; the verdict on that one."""
    pool, policies, rule, running = scheduler.pool, scheduler.policies, scheduler.rule, scheduler.running
    batch_runs = rule.one_batch and bool(running)
    while (head := scheduler.waiting.head) is not None:
        if (verdict := _stops_all(scheduler, head, draft)) is not None:
            return verdict
        if (why := never_fits(head, pool, rule, lookups=policies.prefix_cache)) is not None:
            scheduler.end(head, FinishReason.ERROR, now, why)
            draft.rejected.append((head, why))
            continue
        if batch_runs:
            return batch_running(head, len(running), policies)
        if (taken := places_taken(running)) + places_taken([head]) > policies.max_running and running:
            return too_many_running(head, taken, policies)
        if draft.budget == 0 and not rule.one_batch:
            return no_tokens_left(head, policies)
        if running and (verdict := above_resume_gate(head, policies, pool)) is not None:
            return verdict
        if scheduler.tiers is not None and (verdict := _awaits_copies(scheduler.tiers, head, policies)) is not None:
            return verdict
        offer = weigh(
            head,
            pool,
            rule,
            policies,
            reserved=scheduler.reserved_blocks,
            alone=not running,
        )
        if not offer.fits:
            return too_little_room(head, offer, policies)
        _start(scheduler, head, offer.hits, draft, now)
    return None


def _awaits_copies(tiers: Tiers, head: Request, policies: PolicySet) -> HeadVerdict | None:
    """The verdict on a head that has to wait for copies between tiers that concern itself."""
    return tiering.held_back(tiers, head, policies) or prefetch.held_back(tiers, head, policies)


def _stops_all(scheduler: "Scheduler", head: Request, draft: Draft) -> HeadVerdict | None:
    """The verdict when this iteration admits nobody, whatever the head needs."""
    pool, policies = scheduler.pool, scheduler.policies
    if scheduler.paused:
        return HeadVerdict(head, "paused", "resume to go on")
    if scheduler.switching:
        return HeadVerdict(head, "draining", scheduler.transition_text() or "draining", rule=policies.rule("kv_dtype"))
    if scheduler.draining:
        target = CAPACITIES[policies.capacity]
        return draining(
            head,
            never_fits(head, pool, target, lookups=policies.prefix_cache),
            scheduler.transition_text(),
            policies,
            pool,
        )
    if draft.stalled:
        return waiting_for_copies(head, draft.stalled[0], policies, pool)
    if draft.preempted:
        return after_preemption(head, draft.preempted, policies, pool)
    return None


def _start(scheduler: "Scheduler", request: Request, hits: list[int], draft: Draft, now: float) -> None:
    """Admit ``request``: it shares its prefix hits, is promised what the rule promises, and gets tokens."""
    pool, policies, first = scheduler.pool, scheduler.policies, request.admissions == 0
    scheduler.waiting.remove(request)
    scheduler.running.append(request)
    request.block_table = list(hits)
    request.holes = hits.count(NO_BLOCK)
    for block in request.held:
        pool.share(block, request.num, now)
    request.chained = len(hits) // pool.groups
    retain(request, 0, len(hits), pool, now)
    request.computed = request.cached = pool.tokens_in(len(hits))
    waited = max(0.0, now - request.times.since)
    request.enter(RequestState.PREFILL, now)
    request.started = now
    request.kv_dtype = scheduler.kv_types.in_force
    request.admissions += 1
    scheduler.totals.admissions += 1
    if first and policies.prefix_cache:
        scheduler.totals.prefix_query_tokens += request.prompt_tokens
        scheduler.totals.prefix_hit_tokens += request.cached
    if scheduler.rule.reserves:
        scheduler.promised.make(request)
    if scheduler.tiers is not None:
        tiering.hit(scheduler, scheduler.tiers, hits, now)
    loading = scheduler.tiers is not None and tiering.begin_load(scheduler, scheduler.tiers, request, now)
    if not loading and policies.prefix_cache and (part := PARTS.get(policies.partial_reuse)) is not None:
        part(scheduler, request, now)
    count = 0 if loading else min(request.remaining, draft.budget)
    if count:
        scheduler.assign(request, count, draft, now)
    draft.admitted.append(Admission(request, request.cached, len(request.block_table), waited, first))
