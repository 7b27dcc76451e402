"""The axis ``order``: in which order waiting requests are tried. The first that cannot be admitted stops the scan."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.request import Request, RequestState

SortKey = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class QueueOrder:
    name: str
    help: str
    key: Callable[[Request], SortKey]
    """Smallest first. Must not change while the request waits."""


def _fcfs(request: Request) -> SortKey:
    # Whoever has run before goes ahead of all who have not; among the preempted, arrival decides.
    return (0 if request.state is RequestState.PREEMPTED else 1, request.arrival, request.num)


def _priority(request: Request) -> SortKey:
    return (request.priority, request.arrival, request.num)


def _shortest_prompt(request: Request) -> SortKey:
    return (request.prompt_tokens, request.arrival, request.num)


ORDERS = {
    order.name: order
    for order in (
        QueueOrder("fcfs", "First come, first served. Preempted requests go to the front.", _fcfs),
        QueueOrder(
            "priority", "Smallest priority number first, then arrival. Preempted requests keep theirs.", _priority
        ),
        QueueOrder(
            "shortest_prompt",
            "Fewest prompt tokens first, then arrival. Long prompts may wait forever.",
            _shortest_prompt,
        ),
    )
}
