"""The axis ``order``: in which order waiting requests are tried. The first that cannot be admitted stops the scan."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class QueueOrder:
    name: str
    help: str
    measure: Callable[[Request], float]
    """Smallest first. Equals stand by their arrival, preempted ones as ``requeue`` says."""


ORDERS = {
    order.name: order
    for order in (
        QueueOrder("fcfs", "First come, first served.", lambda request: 0),
        QueueOrder("priority", "Smallest priority number first, then arrival.", lambda request: request.priority),
        QueueOrder(
            "shortest_prompt",
            "Fewest prompt tokens first, then arrival. Long prompts may wait forever.",
            lambda request: request.prompt_tokens,
        ),
    )
}
