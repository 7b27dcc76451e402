"""The axis ``requeue``: where a preempted request stands among those that the queue's order treats as its equals.

Under fcfs all are equals; under priority those with the same number; under shortest_prompt those with as long a prompt.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.requests.request import Request, RequestState

Place = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Requeue:
    name: str
    help: str
    place: Callable[[Request], Place]
    """Smallest first. Must not change while the request waits."""


def _front(request: Request) -> Place:
    return (0 if request.state is RequestState.PREEMPTED else 1, request.arrival, 0)


def _back(request: Request) -> Place:
    # A preempted one waits since its preemption, so it stands behind all that were there and ahead of all to come.
    preempted = request.state is RequestState.PREEMPTED
    return (0, request.times.since if preempted else request.arrival, preempted)


def _by_priority(request: Request) -> Place:
    if request.state is RequestState.PREEMPTED:
        return (0, request.priority, request.arrival)
    return (1, request.arrival, 0)


REQUEUES = {
    requeue.name: requeue
    for requeue in (
        Requeue("front", "Ahead of all that never ran; among preempted ones by arrival.", _front),
        Requeue("back", "Behind all that wait, ahead of those that arrive later.", _back),
        Requeue(
            "by_priority",
            "Ahead of all that never ran; among preempted ones the smallest priority number first.",
            _by_priority,
        ),
    )
}
