"""Policy changes: what one would do, to whom, worked out before anything is changed.

`plan_change` is pure. The scheduler's preview and the change itself both go by its result, so what was announced is
what happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.memory.blocks import CACHED
from engine.memory.pins import Pins
from engine.memory.pool import BlockPool
from engine.policies.capacity import CAPACITIES, CapacityRule
from engine.policies.order import ORDERS
from engine.policies.policy_set import PolicySet, spell
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.policies.requeue import REQUEUES
from engine.requests.members import awake_of, is_one_search, width_taken
from engine.requests.request import Request
from engine.requests.retention import DEFAULT_PRIORITY
from engine.scheduling import kv_switch, tiering
from engine.scheduling.admission import never_fits
from engine.scheduling.preemption import pick_victim, protected
from engine.scheduling.promises import overcommitment, promises
from engine.scheduling.roster import Roster
from engine.words import counted
from kvtop.protocol import PolicyValue

TRANSITIONS = ("drain", "preempt")
NAMED = 6
"""Requests named in one sentence; the rest are counted."""


@dataclass(slots=True)
class ChangePlan:
    """``victims`` with the cause, to be preempted in this order. ``drains``: the old capacity rule goes on for now."""

    new: PolicySet
    effects: list[str] = field(default_factory=list)
    victims: list[tuple[Request, str]] = field(default_factory=list)
    unpinned: list[str] = field(default_factory=list)
    """Names of pins that go."""
    drains: bool = False
    action: str | None = None
    """What becomes of the victims; None: what the new policies say."""


def plan_change(roster: Roster, pins: Pins, changes: dict[str, PolicyValue], transition: str) -> ChangePlan:
    """What ``changes`` would do. Raises ValueError, in one sentence, for an unknown axis, value or transition."""
    if transition not in TRANSITIONS:
        raise ValueError(f"there is no transition {transition[:40]!r}; choose drain or preempt")
    old = roster.regime.policies
    plan = ChangePlan(old.changed(changes))
    roster.regime.kv_types.check(plan.new.kv_dtype)
    stay = _Remaining(roster.running, roster.pool)
    if plan.new.kv_dtype != old.kv_dtype or (roster.regime.switching and "kv_dtype" in changes):
        _change_kv_dtype(plan, roster, len(pins), stay, transition)
    if plan.new.max_running != old.max_running or (transition == "preempt" and "max_running" in changes):
        _change_max_running(plan, old, stay, transition)
    if plan.new.capacity != old.capacity or (roster.regime.draining and "capacity" in changes):
        _change_capacity(plan, roster, stay, transition)
    elif roster.regime.draining:
        plan.drains = overcommitment(stay.left, roster.pool) > 0
    if plan.new.pin_limit != old.pin_limit or (transition == "preempt" and "pin_limit" in changes):
        _change_pin_limit(plan, roster, pins, transition)
    _describe_the_rest(plan, roster)
    if not plan.effects:
        plan.effects.append("Nothing changes: these values are in force already.")
    return plan


def pending_text(roster: Roster) -> str | None:
    """What a policy change still waits for, in a sentence; None when there is nothing."""
    regime, running = roster.regime, roster.running
    if regime.switching:
        return f"draining to kv_dtype={regime.policies.kv_dtype}: waits for {kv_switch.waits_for(roster)}"
    if regime.draining:
        over = overcommitment(running, roster.pool)
        more = counted(over, "block")
        return f"draining to capacity={regime.policies.capacity}: running requests may need {more} too many"
    over = width_taken(running) - regime.policies.max_running
    if over > 0 and not is_one_search(running):
        return f"draining to max_running={regime.policies.max_running}: {over} too many run"
    return None


class _Remaining:
    """The running requests and the free blocks as they would be once the victims chosen so far are gone."""

    def __init__(self, running: Sequence[Request], pool: BlockPool) -> None:
        self.left = list(running)
        self.pool = pool
        self.available = pool.available
        self._released: dict[int, int] = {}

    @property
    def over(self) -> int:
        return promises(self.left, self.pool) - self.available

    def drop(self, victim: Request) -> None:
        for request in awake_of(victim):
            self.left.remove(request)
            for block in request.held:
                gone = self._released[block] = self._released.get(block, 0) + 1
                self.available += gone == self.pool.refs_of(block) and not self.pool.pins[block]


def _choose(plan: ChangePlan, stay: _Remaining, cause: str) -> Request:
    victim = pick_victim(stay.left, plan.new).victim
    stay.drop(victim)
    plan.victims.append((victim, cause))
    return victim


def _change_kv_dtype(plan: ChangePlan, roster: Roster, pins: int, stay: _Remaining, transition: str) -> None:
    new = plan.new.kv_dtype
    victims: list[Request] = []
    if transition == "preempt" and new != roster.regime.kv_types.in_force:
        # Whatever else the change asks for: KV of the old type need not be kept for anybody.
        plan.action = "recompute"
        cause = f"policy change to {plan.new.rule('kv_dtype')}"
        while stay.left:
            victims.append(_choose(plan, stay, cause))
    if victims:
        plan.effects.append(_preempted(plan, victims, f"because their KV is worth nothing as {new}"))
    plan.effects += kv_switch.effects(roster, pins, new, len(stay.left))


def _change_max_running(plan: ChangePlan, old: PolicySet, stay: _Remaining, transition: str) -> None:
    limit, runs = plan.new.max_running, width_taken(stay.left)
    if limit != old.max_running:
        plan.effects.append(f"max_running goes from {old.max_running} to {limit}; {runs} {_run(runs)} now.")
    if runs <= limit:
        return
    if transition == "drain":
        plan.effects.append(
            f"Nothing is admitted until {counted(runs - limit + 1, 'request')} of {_names(stay.left)} end."
        )
        return
    cause = f"policy change to {plan.new.rule('max_running')}: {runs} ran"
    victims = []
    while width_taken(stay.left) > limit and not is_one_search(stay.left):
        victims.append(_choose(plan, stay, cause))
    if victims:
        plan.effects.append(_preempted(plan, victims, f"so that {limit} run"))
    if width_taken(stay.left) > limit:
        plan.effects.append(
            f"The {counted(len(stay.left), 'beam')} of {stay.left[0].id} go on while nothing else runs."
        )


def _change_capacity(plan: ChangePlan, roster: Roster, stay: _Remaining, transition: str) -> None:
    old, rule = roster.regime.policies.capacity, CAPACITIES[plan.new.capacity]
    if rule.name != old:
        plan.effects.append(f"capacity goes from {old} to {rule.name}.")
    if not rule.reserves:
        plan.effects += _stops_reserving(plan, roster)
        return
    over = stay.over
    if over > 0 and transition == "drain":
        plan.drains = True
        plan.effects.append(
            f"Running requests may still need {counted(promises(stay.left, stay.pool), 'block')} and {stay.available} are "
            f"available: nothing is admitted, and {roster.regime.capacity.name} goes on, until they fit."
        )
    elif over > 0:
        cause = f"policy change to {plan.new.rule('capacity')}: running requests may need {over} blocks too many"
        victims = []
        while stay.over > 0:
            victims.append(_choose(plan, stay, cause))
        plan.effects.append(_preempted(plan, victims, "so that the rest can reserve up to their maximum"))
    if not plan.drains and stay.left:
        reserved = promises(stay.left, stay.pool)
        verb = "is" if reserved == 1 else "are"
        plan.effects.append(
            f"{counted(reserved, 'block')} {verb} reserved for {_names(stay.left)} to reach their maximum."
        )
    if rule.one_batch and stay.left:
        plan.effects.append(f"Nothing is admitted until {_names(stay.left)} {_end(stay.left)}.")
    plan.effects += _doomed(plan, roster, rule)


def _change_pin_limit(plan: ChangePlan, roster: Roster, pins: Pins, transition: str) -> None:
    old, new, pool = roster.regime.policies.pin_limit, plan.new.pin_limit, roster.pool
    if new != old:
        plan.effects.append(
            f"At most {counted(int(new * pool.total), 'block')} may be pinned, no more {int(old * pool.total)}; "
            f"{pool.pinned_total} {_are(pool.pinned_total)} now."
        )
    gone = pins.beyond(new)
    if gone and transition == "preempt":
        plan.unpinned = gone
        plan.effects.append(f"{_listed(gone)} {_are(len(gone))} unpinned, the latest first.")
    elif gone:
        plan.effects.append(f"Pins stay, and nothing more is pinned until {_listed(gone)} {_are(len(gone))} unpinned.")


def _stops_reserving(plan: ChangePlan, roster: Roster) -> list[str]:
    effects = []
    if roster.promised.blocks:
        effects.append(f"{counted(roster.promised.blocks, 'block')} reserved for running requests are given back.")
    if roster.regime.draining:
        effects.append("The draining ends; requests are admitted again.")
    effects.append(f"When memory runs out a running request is preempted ({plan.new.rule('victim')}).")
    return effects


def _doomed(plan: ChangePlan, roster: Roster, rule: CapacityRule) -> list[str]:
    """Who will be refused at its turn because its maximum exceeds the whole pool."""
    action = PREEMPT_ACTIONS[plan.action or plan.new.preempt_action]
    again = [victim for victim, _ in plan.victims] if action.requeues else []
    queued = [*again, *roster.waiting]
    doomed = [
        request
        for request in queued
        if never_fits(request, roster.pool, rule, lookups=plan.new.prefix_cache) is not None
    ]
    if not doomed:
        return []
    return [
        f"{_names(doomed)} can never run under {rule.name}, with a maximum beyond the pool of "
        f"{counted(roster.pool.total, 'block')}; each ends with an error at its turn."
    ]


def _describe_the_rest(plan: ChangePlan, roster: Roster) -> None:
    """The axes that take effect at once and break nothing."""
    old, new, pool = roster.regime.policies, plan.new, roster.pool
    say = plan.effects.append
    if new.order != old.order:
        say(f"The queue's order goes from {old.order} to {new.order}; {_next_head(plan, roster)}.")
    plan.effects += _preemption_rules(plan, roster)
    if new.eviction != old.eviction:
        say(
            f"Cached blocks are evicted by {new.eviction}, no more by {old.eviction}; "
            f"{counted(len(pool.evictable), 'cached block')} {_are(len(pool.evictable))} put in the new order."
        )
    if new.eviction == "priority" != old.eviction:
        kept = int(np.count_nonzero((pool.priority != DEFAULT_PRIORITY) & (pool.state == CACHED)))
        say(
            f"{kept} of them got a retention priority that a request asked for, which counts until it runs out; all others "
            f"count {DEFAULT_PRIORITY}."
        )
    if new.free_order != old.free_order:
        say(
            f"Blocks are released {new.free_order.replace('_', ' ')}, no more {old.free_order.replace('_', ' ')}; those "
            "that are cached keep their order."
        )
    plan.effects += tiering.effects(old, new, roster.tiers)
    if new.compaction != old.compaction:
        what = {
            "off": "No block is moved any more, but by the command compact.",
            "when_idle": "Blocks are moved down whenever no request is live",
            "continuous": "Blocks are moved down in every iteration",
        }[new.compaction]
        say(
            what
            if new.compaction == "off"
            else f"{what}, at most {counted(new.compaction_moves, 'block')} an iteration."
        )
    if new.compaction_moves != old.compaction_moves:
        say(
            f"At most {counted(new.compaction_moves, 'block')} are moved in an iteration, no more {old.compaction_moves}."
        )
    if new.prefix_cache and not old.prefix_cache:
        say(f"New requests look up their prefix again; {counted(len(pool.index), 'block')} can be found at once.")
    if old.prefix_cache and not new.prefix_cache:
        say(
            f"Nobody looks up a prefix and no more blocks get a hash; {counted(pool.cached_blocks, 'cached block')} stay until "
            "their room is needed."
        )
    if new.partial_reuse != old.partial_reuse:
        say(_partial_reuse(old, new))
    if new.token_budget != old.token_budget:
        say(f"An iteration computes at most {new.token_budget} tokens, no more {old.token_budget}.")
        if (late := len(roster.running) - len(plan.victims) - new.token_budget) > 0:
            say(f"{counted(late, 'request')} of those running get no token while those before them decode.")
    if new.watermark != old.watermark:
        say(
            f"The watermark goes from {spell(old.watermark)} to {spell(new.watermark)}: admissions leave "
            f"{counted(int(new.watermark * pool.total), 'block')} free while something runs."
        )


def _partial_reuse(old: PolicySet, new: PolicySet) -> str:
    if new.partial_reuse == "off":
        return "A prefix hit ends with the last complete block; what was known of the tokens of others is forgotten."
    does = {
        "copy": "copies the beginning of a cached block that fits",
        "exclusive": "takes over a cached block that begins alike, if nobody uses it, which the cache then loses",
    }[new.partial_reuse]
    known = "; only blocks completed from now on are known that well" if old.partial_reuse == "off" else ""
    return f"Where its complete blocks end, a new request {does}{known}."


def _next_head(plan: ChangePlan, roster: Roster) -> str:
    """Who of those waiting now will be the head."""
    head = roster.waiting.head
    then = roster.waiting.head_under(ORDERS[plan.new.order], REQUEUES[plan.new.requeue])
    if head is None or then is None:
        return "nobody waits now"
    return f"{then.id} stays at its head" if head is then else f"{then.id} comes to its head before {head.id}"


def _preemption_rules(plan: ChangePlan, roster: Roster) -> list[str]:
    """What changes for those who are preempted from now on, and for those who were."""
    old, new, pool = roster.regime.policies, plan.new, roster.pool
    left = [r for r in roster.running if all(r is not victim for victim, _ in plan.victims)]
    effects = []
    if new.victim != old.victim:
        first = f"it would be {pick_victim(left, new).victim.id} now" if left else "nothing runs now"
        effects.append(f"The next to be preempted is chosen by {new.victim}, no more by {old.victim}; {first}.")
    if new.preempt_action != old.preempt_action:
        effects.append(
            f"A preempted request is from now on {PREEMPT_ACTIONS[new.preempt_action].fate} "
            f"({new.preempt_action}), no more {PREEMPT_ACTIONS[old.preempt_action].fate} ({old.preempt_action})."
        )
    if new.requeue != old.requeue:
        effects.append(
            f"Preempted requests are queued {new.requeue}, no more {old.requeue}, those that wait now too; "
            f"{_next_head(plan, roster)}."
        )
    if new.resume_gate != old.resume_gate:
        used = pool.total - pool.available
        effects.append(
            "Preempted requests are admitted again whenever they fit."
            if new.resume_gate >= 1.0
            else f"Preempted requests are admitted again only while at most {int(new.resume_gate * pool.total)} of "
            f"{counted(pool.total, 'block')} are in use, or nothing runs; {used} are in use now."
        )
    if new.preempt_bound != old.preempt_bound:
        safe = protected(left, new)
        effects.append(
            "Nobody is protected from being preempted, however often it was."
            if not new.preempt_bound
            else f"A request preempted {counted(new.preempt_bound, 'time')} is no victim while any other runs; "
            f"protected now: {_names(safe) if safe else 'nobody'}."
        )
    return effects


def _preempted(plan: ChangePlan, victims: Sequence[Request], purpose: str) -> str:
    tokens = sum(member.computed_tokens for victim in victims for member in awake_of(victim))
    verb = "is" if len(victims) == 1 else "are"
    action = PREEMPT_ACTIONS[plan.action or plan.new.preempt_action]
    beams = action.tier is not None and any(victim.beam is not None for victim in victims)
    but = " Beams are recomputed, not swapped." if beams else ""
    return f"{_names(victims)} {verb} preempted and {action.fate}, {purpose}; {tokens} {action.cost}.{but}"


def _names(requests: Sequence[Request]) -> str:
    return _listed([request.id for request in requests])


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names[:NAMED])
    return listed if len(names) <= NAMED else f"{listed} and {len(names) - NAMED} more"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _run(count: int) -> str:
    return "runs" if count == 1 else "run"


def _end(requests: Sequence[Request]) -> str:
    return "ends" if len(requests) == 1 else "end"
