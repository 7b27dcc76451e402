"""The axis ``preempt_action``: what becomes of a request that is preempted, and of what it has computed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreemptAction:
    """One way to take the memory of a running request."""

    name: str
    help: str
    fate: str
    """What happens to the victim, after "is preempted and"."""
    cost: str
    """What is given up, after a number of computed tokens."""
    requeues: bool = True
    """The victim waits again; otherwise it ends."""
    tier: str | None = None
    """Where its blocks are copied and held for it, if that has room; otherwise it is recomputed."""


def _swap(name: str, tier: str) -> PreemptAction:
    return PreemptAction(
        name,
        f"Its blocks are copied to the {tier} tier, held there for it, and copied back before it runs again. Where "
        "that tier has no room, tier_full decides; where there is no such tier, it is recomputed.",
        fate=f"copied to the {tier} tier and queued again",
        cost="computed tokens are kept in a lower tier, or given up where that has no room",
        tier=tier,
    )


PREEMPT_ACTIONS = {
    action.name: action
    for action in (
        PreemptAction(
            "recompute",
            "Its blocks are released and it waits again; what the prefix cache does not keep is computed again.",
            fate="queued again to be recomputed",
            cost="computed tokens are given up",
        ),
        _swap("swap", "host"),
        _swap("swap_disk", "disk"),
        PreemptAction(
            "abort",
            "It ends with what it has produced so far; its blocks are released.",
            fate="ended for good",
            cost="computed tokens are given up",
            requeues=False,
        ),
    )
}
