"""Preempting a running request: who it hits, what becomes of it, and the record of what that cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.policies.policy_set import PolicySet
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.policies.victim import VICTIMS
from engine.requests.members import awake_of, leader_of
from engine.requests.request import FinishReason, Request
from engine.scheduling import tiering
from engine.scheduling.beam_steps import end, park_beams
from engine.scheduling.output import Preemption
from engine.scheduling.roster import Roster
from engine.words import counted


@dataclass(frozen=True, slots=True)
class Pick:
    """``reason`` names the rules that chose ``victim``. ``protection``: whom the bound spared, or that it could not."""

    victim: Request
    reason: str
    protection: str = ""


def protected(running: Sequence[Request], policies: PolicySet) -> list[Request]:
    """Those that were preempted so often that they are victims only where all are."""
    bound = policies.preempt_bound
    return [request for request in running if bound and request.preemptions >= bound]


def pick_victim(running: Sequence[Request], policies: PolicySet, asking: Request | None = None) -> Pick:
    """Whom the policies would preempt of ``running`` (not empty, in the order of their start).

    ``asking``, who needs the room, is called "itself" in the reason. A beam stands for its search: the victim is the
    leader.
    """
    rule = VICTIMS[policies.victim]
    spared = protected(running, policies)
    open_ones = [request for request in running if request not in spared]
    victim = leader_of(rule.choose(open_ones or running))
    first = leader_of(rule.choose(running))
    reason = f"{policies.rule('victim')} chose {'itself' if asking is not None and victim is leader_of(asking) else victim.id}"
    if not open_ones:
        protection = f"all that run are protected by {policies.rule('preempt_bound')}, so none is"
    elif first is not victim:
        times = counted(first.preemptions, "preemption")
        protection = f"{policies.rule('preempt_bound')} protects {first.id} after {times}"
    else:
        protection = ""
    return Pick(victim, f"{reason}; {protection}" if protection else reason, protection)


def preempt(
    roster: Roster,
    victim: Request,
    now: float,
    cause: str,
    *,
    by: Request | None = None,
    need: int | None = None,
    protection: str = "",
    action: str | None = None,
) -> Preemption:
    """Take the blocks of ``victim``, a running request, in the way the policies say, or by this ``action``; with a beam
    goes its search."""
    awake, beam, victim = awake_of(victim), victim.beam, leader_of(victim)
    free, held = roster.pool.available, sum(len(member.held) for member in awake)
    seconds = 0.0 if victim.started is None else max(0.0, now - victim.started)
    taking = PREEMPT_ACTIONS[action or roster.regime.policies.preempt_action]
    for member in [victim] if beam is None else beam.members:
        member.preemptions += 1
    roster.totals.preemptions += 1
    lost = sum(member.computed_tokens for member in awake)
    if not taking.requeues:
        end(roster, victim, FinishReason.ABORT, now, f"preempted under preempt_action={taking.name}: {cause}")
    elif beam is not None:
        park_beams(roster, beam, now)
        cause += "; beams are recomputed, not swapped" if taking.tier is not None else ""
    else:
        if taking.tier is not None and tiering.swap_out(roster, victim, taking.tier, now):
            lost = 0
        roster.requeue(victim, now)
    if lost:
        for member in [victim] if beam is None else beam.members:
            member.lost_seconds += seconds
    return Preemption(
        victim=victim,
        by=by,
        cause=cause,
        need_blocks=need,
        free_blocks=free,
        tokens_lost=lost,
        blocks_released=held,
        seconds_lost=seconds if lost else 0.0,
        protection=protection,
    )
