"""Policy changes: what one would do, to whom, worked out before anything is changed.

`plan_change` is pure. The scheduler's preview and the change itself both go by its result, so what was announced is
what happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.memory.pins import Pins
from engine.memory.pool import BlockPool
from engine.policies.capacity import CAPACITIES, CapacityRule
from engine.policies.policy_set import PolicySet
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.requests.members import awake_of, is_one_search, width_taken
from engine.requests.request import Request
from engine.scheduling import kv_switch
from engine.scheduling.admission import never_fits
from engine.scheduling.effects import Change, are, effects, listed
from engine.scheduling.preemption import pick_victim
from engine.scheduling.promises import overcommitment, promises
from engine.scheduling.roster import Roster
from engine.words import counted
from kvtop.protocol import PolicyValue

TRANSITIONS = ("drain", "preempt")


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
    gone = [victim for victim, _ in plan.victims]
    left = [request for request in roster.running if all(request is not victim for victim in gone)]
    plan.effects += effects(Change(old, plan.new, roster, left))
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
            f"{pool.pinned_total} {are(pool.pinned_total)} now."
        )
    gone = pins.beyond(new)
    if gone and transition == "preempt":
        plan.unpinned = gone
        plan.effects.append(f"{listed(gone)} {are(len(gone))} unpinned, the latest first.")
    elif gone:
        plan.effects.append(f"Pins stay, and nothing more is pinned until {listed(gone)} {are(len(gone))} unpinned.")


def _stops_reserving(plan: ChangePlan, roster: Roster) -> list[str]:
    said = []
    if roster.promised.blocks:
        said.append(f"{counted(roster.promised.blocks, 'block')} reserved for running requests are given back.")
    if roster.regime.draining:
        said.append("The draining ends; requests are admitted again.")
    said.append(f"When memory runs out a running request is preempted ({plan.new.rule('victim')}).")
    return said


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


def _preempted(plan: ChangePlan, victims: Sequence[Request], purpose: str) -> str:
    tokens = sum(member.computed_tokens for victim in victims for member in awake_of(victim))
    verb = "is" if len(victims) == 1 else "are"
    action = PREEMPT_ACTIONS[plan.action or plan.new.preempt_action]
    beams = action.tier is not None and any(victim.beam is not None for victim in victims)
    but = " Beams are recomputed, not swapped." if beams else ""
    return f"{_names(victims)} {verb} preempted and {action.fate}, {purpose}; {tokens} {action.cost}.{but}"


def _names(requests: Sequence[Request]) -> str:
    return listed([request.id for request in requests])


def _run(count: int) -> str:
    return "runs" if count == 1 else "run"


def _end(requests: Sequence[Request]) -> str:
    return "ends" if len(requests) == 1 else "end"
