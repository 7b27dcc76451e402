"""The axis ``preempt_action``: what becomes of a request that is preempted, and of what it has computed."""

from typing import TYPE_CHECKING, Protocol

from engine.request import FinishReason, Request

if TYPE_CHECKING:
    from engine.scheduler import Scheduler


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
    fate = "queued again"
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


PREEMPT_ACTIONS: dict[str, PreemptAction] = {action.name: action for action in (Recompute(), Abort())}
