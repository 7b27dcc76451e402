"""Why the head of the queue waits: one function for each answer, with its numbers and a sentence."""

from collections.abc import Sequence

from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet, spell
from engine.requests.request import Request, RequestState
from engine.scheduling.admission import Offer
from engine.scheduling.output import HeadVerdict, Preemption
from engine.words import counted


def draining(
    head: Request, never: str | None, transition: str | None, policies: PolicySet, pool: BlockPool
) -> HeadVerdict:
    """``never``: why the rule that is to come can never admit it. ``transition``: what is being waited for."""
    rule = policies.rule("capacity")
    if never is not None:
        return HeadVerdict(head, "never_fits", never, rule=rule, limit=pool.total)
    return HeadVerdict(head, "draining", transition or "draining", rule=rule)


def after_preemption(
    head: Request, preempted: Sequence[Preemption], policies: PolicySet, pool: BlockPool
) -> HeadVerdict:
    protection = preempted[-1].protection
    return HeadVerdict(
        head,
        "after_preemption",
        f"{counted(len(preempted), 'request')} preempted in this iteration: memory is short, so none is admitted"
        + (f"; {protection}" if protection else ""),
        rule=policies.rule("capacity"),
        available_blocks=pool.available,
    )


def waiting_for_copies(head: Request, waits: Request, policies: PolicySet, pool: BlockPool) -> HeadVerdict:
    """``waits``: a running request that cannot go on before copies to other tiers have ended."""
    return HeadVerdict(
        head,
        "transfer",
        f"{waits.id} waits for blocks that are being copied to another tier, and comes first",
        rule=policies.rule("preempt_action"),
        available_blocks=pool.available,
    )


def batch_running(head: Request, running: int, policies: PolicySet) -> HeadVerdict:
    return HeadVerdict(
        head,
        "batch_running",
        f"waits for the batch of {counted(running, 'request')} to end",
        rule=policies.rule("capacity"),
    )


def too_many_running(head: Request, running: int, policies: PolicySet) -> HeadVerdict:
    return HeadVerdict(
        head,
        "max_running",
        f"{counted(running, 'request')} running, {policies.max_running} allowed"
        + (f"; its {head.siblings} beams count one each" if head.beam is not None else ""),
        rule=policies.rule("max_running"),
        limit=policies.max_running,
    )


def above_resume_gate(head: Request, policies: PolicySet, pool: BlockPool) -> HeadVerdict | None:
    """The verdict on a preempted request while more of the pool is in use than the gate allows; None when it may pass.

    Asked only while something runs: with nothing running the gate is open.
    """
    used = pool.total - pool.available
    if head.state is not RequestState.PREEMPTED or used <= policies.resume_gate * pool.total:
        return None
    return HeadVerdict(
        head,
        "resume_gate",
        f"{head.id} was preempted and resumes when at most {spell(policies.resume_gate)} of the pool is in use; "
        f"{used} of {counted(pool.total, 'block')} are",
        rule=policies.rule("resume_gate"),
        available_blocks=pool.available,
        limit=int(policies.resume_gate * pool.total),
    )


def no_tokens_left(head: Request, policies: PolicySet) -> HeadVerdict:
    return HeadVerdict(
        head,
        "token_budget",
        f"all {policies.token_budget} tokens of this iteration went to requests before it",
        rule=policies.rule("token_budget"),
        limit=policies.token_budget,
    )


def too_little_room(request: Request, offer: Offer, policies: PolicySet) -> HeadVerdict:
    """The verdict on an offer that does not fit."""
    watermark_decides = offer.need <= offer.available + offer.watermark
    kept = [f"{offer.reserved} are promised to running requests"] if offer.reserved else []
    kept += [f"{offer.watermark} are kept free by the watermark"] if offer.watermark else []
    available = max(0, offer.available)
    return HeadVerdict(
        request,
        "needs_blocks",
        f"{request.id} needs {counted(offer.need, 'block', more=True)} and can have {available}"
        + "".join(f"; {k}" for k in kept),
        rule=policies.rule("watermark" if watermark_decides else "capacity"),
        need_blocks=offer.need,
        available_blocks=available,
        reserved_blocks=offer.reserved,
        watermark_blocks=offer.watermark,
    )
