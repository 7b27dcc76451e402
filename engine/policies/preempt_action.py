"""The axis ``preempt_action``: what becomes of a request that is preempted, and of what it has computed."""

from typing import TYPE_CHECKING, Protocol

from engine.requests.request import FinishReason, Request, RequestState

if TYPE_CHECKING:
    from engine.scheduling.scheduler import Scheduler


class PreemptAction(Protocol):
    """One way to take the memory of a running request."""

    name: str
    help: str
    fate: str
    """What happens to the victim, after "is preempted and"."""
    cost: str
    """What is given up, after a number of computed tokens."""
    requeues: bool
    """The victim waits again; otherwise it ends."""

    def take(self, scheduler: "Scheduler", victim: Request, now: float, cause: str) -> int:
        """Take the blocks of ``victim``, which runs, and requeue or end it. Returns the computed tokens given up."""
        ...


class Recompute:
    name = "recompute"
    help = "Its blocks are released and it waits again; what the prefix cache does not keep is computed again."
    fate = "queued again to be recomputed"
    cost = "computed tokens are given up"
    requeues = True

    def take(self, scheduler: "Scheduler", victim: Request, now: float, cause: str) -> int:
        lost = victim.computed
        scheduler.release(victim, now)
        scheduler.requeue(victim, now)
        return lost


class Abort:
    name = "abort"
    help = "It ends with what it has produced so far; its blocks are released."
    fate = "ended for good"
    cost = "computed tokens are given up"
    requeues = False

    def take(self, scheduler: "Scheduler", victim: Request, now: float, cause: str) -> int:
        lost = victim.computed
        scheduler.end(victim, FinishReason.ABORT, now, f"preempted under preempt_action=abort: {cause}")
        return lost


class Swap(Recompute):
    """Copies its blocks to a lower tier and holds them there for it; recomputes where that is not possible."""

    cost = "computed tokens are kept in a lower tier, or given up where that has no room"

    def __init__(self, name: str, tier: str) -> None:
        self.name = name
        self.tier = tier
        self.fate = f"copied to the {tier} tier and queued again"
        self.help = (
            f"Its blocks are copied to the {tier} tier, held there for it, and copied back before it runs again. Where "
            "that tier has no room, tier_full decides; where there is no such tier, it is recomputed."
        )

    def take(self, scheduler: "Scheduler", victim: Request, now: float, cause: str) -> int:
        tiers = scheduler.tiers
        # A table with a hole is not swapped: of what slid out of the window nothing is kept, and little is left.
        if tiers is None or victim.state is RequestState.LOADING or not victim.computed or victim.holes:
            return super().take(scheduler, victim, now, cause)
        books = tiers.named(self.tier)
        if scheduler.copies.awaits(victim):
            return super().take(scheduler, victim, now, cause)  # Its blocks do not hold yet what they should.
        if books is None or not tiers.swaps.room(victim, books):
            tiers.swaps.refuse(victim, self.tier)
            return super().take(scheduler, victim, now, cause)
        tiers.swaps.out(victim, books, now)
        super().take(scheduler, victim, now, cause)
        return 0


SWAPS = {swap.name: swap for swap in (Swap("swap", "host"), Swap("swap_disk", "disk"))}

_ACTIONS: tuple[PreemptAction, ...] = (Recompute(), *SWAPS.values(), Abort())
PREEMPT_ACTIONS = {action.name: action for action in _ACTIONS}
