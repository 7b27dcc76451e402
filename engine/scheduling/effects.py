"""What a change of policies does, in sentences, for the axes that take effect at once and break nothing.

Those for which a transition is asked are told of where it is worked out (`engine.scheduling.transition`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.memory.blocks import CACHED
from engine.policies.order import ORDERS
from engine.policies.policy_set import AXES, PolicySet, spell
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.policies.requeue import REQUEUES
from engine.requests.request import Request
from engine.requests.retention import DEFAULT_PRIORITY
from engine.scheduling.preemption import pick_victim, protected
from engine.scheduling.roster import Roster
from engine.words import counted

NAMED = 6
"""Requests named in one sentence; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Change:
    """From ``old`` policies to ``new`` ones; ``left``: who still runs when the victims of the change are gone."""

    old: PolicySet
    new: PolicySet
    roster: Roster
    left: Sequence[Request]


def effects(change: Change) -> list[str]:
    """What each axis that changes does, in the order of the axes."""
    old, new = change.old.values(), change.new.values()
    said = []
    for name in (name for name, axis in AXES.items() if old[name] != new[name] and not axis.transition):
        words = _IN_WORDS.get(name)
        said += [f"{name} goes from {spell(old[name])} to {spell(new[name])}."] if words is None else words(change)
    return said


def listed(names: Sequence[str]) -> str:
    """The first of ``names``, and how many more there are."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def are(count: int) -> str:
    return "is" if count == 1 else "are"


def _order(change: Change) -> list[str]:
    return [f"The queue's order goes from {change.old.order} to {change.new.order}; {_next_head(change)}."]


def _next_head(change: Change) -> str:
    """Who of those waiting now will be the head."""
    waiting = change.roster.waiting
    then = waiting.head_under(ORDERS[change.new.order], REQUEUES[change.new.requeue])
    if waiting.head is None or then is None:
        return "nobody waits now"
    stays = waiting.head is then
    return f"{then.id} stays at its head" if stays else f"{then.id} comes to its head before {waiting.head.id}"


def _victim(change: Change) -> list[str]:
    old, new, left = change.old, change.new, change.left
    first = f"it would be {pick_victim(left, new).victim.id} now" if left else "nothing runs now"
    return [f"The next to be preempted is chosen by {new.victim}, no more by {old.victim}; {first}."]


def _preempt_action(change: Change) -> list[str]:
    old, new, tiers = (
        PREEMPT_ACTIONS[change.old.preempt_action],
        PREEMPT_ACTIONS[change.new.preempt_action],
        change.roster.tiers,
    )
    said = [f"A preempted request is from now on {new.fate} ({new.name}), no more {old.fate} ({old.name})."]
    if new.tier is not None:
        books = None if tiers is None else tiers.named(new.tier)
        if books is None:
            said.append(f"This engine has no {new.tier} tier: preempted requests are recomputed all the same.")
        else:
            said.append(f"{counted(books.available, 'block')} of {books.slots} can be used in the {new.tier} tier.")
    if tiers is not None and tiers.swapped:
        swapped = counted(len(tiers.swapped), "request")
        said.append(f"{swapped} swapped out before keep their state and come back with it.")
    return said


def _requeue(change: Change) -> list[str]:
    return [
        f"Preempted requests are queued {change.new.requeue}, no more {change.old.requeue}, those that wait now too; "
        f"{_next_head(change)}."
    ]


def _resume_gate(change: Change) -> list[str]:
    pool, gate = change.roster.pool, change.new.resume_gate
    if gate >= 1.0:
        return ["Preempted requests are admitted again whenever they fit."]
    return [
        f"Preempted requests are admitted again only while at most {int(gate * pool.total)} of "
        f"{counted(pool.total, 'block')} are in use, or nothing runs; {pool.total - pool.available} are in use now."
    ]


def _preempt_bound(change: Change) -> list[str]:
    if not change.new.preempt_bound:
        return ["Nobody is protected from being preempted, however often it was."]
    safe = [request.id for request in protected(change.left, change.new)]
    return [
        f"A request preempted {counted(change.new.preempt_bound, 'time')} is no victim while any other runs; "
        f"protected now: {listed(safe) if safe else 'nobody'}."
    ]


def _eviction(change: Change) -> list[str]:
    pool, evictable = change.roster.pool, len(change.roster.pool.evictable)
    said = [
        f"Cached blocks are evicted by {change.new.eviction}, no more by {change.old.eviction}; "
        f"{counted(evictable, 'cached block')} {are(evictable)} put in the new order."
    ]
    if change.new.eviction == "priority":
        kept = int(np.count_nonzero((pool.priority != DEFAULT_PRIORITY) & (pool.state == CACHED)))
        said.append(
            f"{kept} of them got a retention priority that a request asked for, which counts until it runs out; all others "
            f"count {DEFAULT_PRIORITY}."
        )
    return said


def _free_order(change: Change) -> list[str]:
    new, old = (policies.free_order.replace("_", " ") for policies in (change.new, change.old))
    return [f"Blocks are released {new}, no more {old}; those that are cached keep their order."]


def _offload(change: Change) -> list[str]:
    old, new, tiers = change.old.offload, change.new.offload, change.roster.tiers
    if tiers is None:
        return [f"offload goes from {old} to {new}; this engine has no tier to store in."]
    said = [f"offload goes from {old} to {new}."]
    stored = sum(len(books.index) for books in tiers.books)
    if stored and new == "off":
        said.append(f"{counted(stored, 'block')} stored before stay where they are, and are not looked up.")
    if stored and old == "off":
        said.append(f"{counted(stored, 'block')} stored before can be found again at once.")
    return said


def _prefetch(change: Change) -> list[str]:
    new, tiers = change.new, change.roster.tiers
    if new.prefetch == "off":
        coming = 0 if tiers is None else len(tiers.prefetches.under_way)
        still = f"; {counted(coming, 'block')} under way still come" if coming else ""
        return [f"Blocks of lower tiers come to the device only for requests that are admitted{still}."]
    if tiers is None:
        return ["This engine has no tier to bring blocks from ahead of their request."]
    idle = "" if new.prefix_cache and new.offload != "off" else "; nothing is, while prefix_cache or offload is off"
    return [f"While the head of the queue waits, its prefix is brought from lower tiers to the device{idle}."]


def _tier_full(change: Change) -> list[str]:
    fate = "the victim keeps its blocks" if change.new.tier_full == "block" else "the victim is recomputed"
    return [f"When a tier is full, {fate}."]


def _compaction(change: Change) -> list[str]:
    if change.new.compaction == "off":
        return ["No block is moved any more, but by the command compact."]
    when = {"when_idle": "whenever no request is live", "continuous": "in every iteration"}[change.new.compaction]
    most = counted(change.new.compaction_moves, "block")
    return [f"Blocks are moved down {when}, at most {most} an iteration."]


def _compaction_moves(change: Change) -> list[str]:
    most = counted(change.new.compaction_moves, "block")
    return [f"At most {most} are moved in an iteration, no more {change.old.compaction_moves}."]


def _prefix_cache(change: Change) -> list[str]:
    pool, tiers = change.roster.pool, change.roster.tiers
    if change.new.prefix_cache:
        return [f"New requests look up their prefix again; {counted(len(pool.index), 'block')} can be found at once."]
    said = [
        f"Nobody looks up a prefix and no more blocks get a hash; {counted(pool.cached_blocks, 'cached block')} stay until "
        "their room is needed."
    ]
    if tiers is not None and (coming := len(tiers.prefetches.under_way)):
        said.append(f"{counted(coming, 'block')} on the way to the prefix cache will be free when they have come.")
    return said


def _partial_reuse(change: Change) -> list[str]:
    if change.new.partial_reuse == "off":
        return ["A prefix hit ends with the last complete block; what was known of the tokens of others is forgotten."]
    does = {
        "copy": "copies the beginning of a cached block that fits",
        "exclusive": "takes over a cached block that begins alike, if nobody uses it, which the cache then loses",
    }[change.new.partial_reuse]
    unknown = change.old.partial_reuse == "off"
    known = "; only blocks completed from now on are known that well" if unknown else ""
    return [f"Where its complete blocks end, a new request {does}{known}."]


def _token_budget(change: Change) -> list[str]:
    budget = change.new.token_budget
    said = [f"An iteration computes at most {budget} tokens, no more {change.old.token_budget}."]
    if (late := len(change.left) - budget) > 0:
        said.append(f"{counted(late, 'request')} of those running get no token while those before them decode.")
    return said


def _watermark(change: Change) -> list[str]:
    new = change.new.watermark
    kept = counted(int(new * change.roster.pool.total), "block")
    return [
        f"The watermark goes from {spell(change.old.watermark)} to {spell(new)}: admissions leave {kept} free while "
        "something runs."
    ]


_IN_WORDS: dict[str, Callable[[Change], list[str]]] = {
    "order": _order,
    "victim": _victim,
    "preempt_action": _preempt_action,
    "requeue": _requeue,
    "resume_gate": _resume_gate,
    "preempt_bound": _preempt_bound,
    "eviction": _eviction,
    "free_order": _free_order,
    "offload": _offload,
    "prefetch": _prefetch,
    "tier_full": _tier_full,
    "compaction": _compaction,
    "compaction_moves": _compaction_moves,
    "prefix_cache": _prefix_cache,
    "partial_reuse": _partial_reuse,
    "token_budget": _token_budget,
    "watermark": _watermark,
}
"""What there is to say beyond the two values: to whom it happens, how much, and when."""
