"""The waiting queue: requests in the order in which they will be tried."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Protocol

from engine.policies.order import QueueOrder
from engine.policies.requeue import Requeue
from engine.requests.request import Request, RequestState


class Waiting(Protocol):
    """The queue as those see it who may not change it. Iterating goes from the head on."""

    @property
    def preempted(self) -> int:
        """Of those waiting, how many have run before."""
        ...

    @property
    def head(self) -> Request | None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...

    def __contains__(self, request: object) -> bool: ...

    def head_under(self, order: QueueOrder, requeue: Requeue) -> Request | None:
        """Who would be the head in another order."""
        ...


class WaitingQueue:
    """Sorted by the order policy's measure, then by the requeue policy's place, head first. Adding and removing cost a binary search and a move of pointers."""

    def __init__(self, order: QueueOrder, requeue: Requeue) -> None:
        self._order = order
        self._requeue = requeue
        # Head last, so that taking the head moves nothing.
        self._reversed: list[Request] = []
        self.preempted = 0

    def __len__(self) -> int:
        return len(self._reversed)

    def __iter__(self) -> Iterator[Request]:
        return reversed(self._reversed)

    def __contains__(self, request: object) -> bool:
        return isinstance(request, Request) and self._find(request) is not None

    @property
    def head(self) -> Request | None:
        return self._reversed[-1] if self._reversed else None

    def add(self, request: Request) -> None:
        """Its state decides where it goes, so set that first."""
        insort(self._reversed, request, key=self._key)
        self.preempted += request.state is RequestState.PREEMPTED

    def remove(self, request: Request) -> None:
        """Before its state changes. Raises ValueError when it does not wait here."""
        place = self._find(request)
        if place is None:
            raise ValueError(f"request {request.id} is not waiting")
        del self._reversed[place]
        self.preempted -= request.state is RequestState.PREEMPTED

    def reorder(self, order: QueueOrder, requeue: Requeue) -> None:
        """From now on in another order."""
        self._order, self._requeue = order, requeue
        self._reversed.sort(key=self._key)

    def head_under(self, order: QueueOrder, requeue: Requeue) -> Request | None:
        """Who would be the head in another order."""
        return min(self._reversed, key=lambda request: _key(request, order, requeue), default=None)

    def _key(self, request: Request) -> tuple[float, ...]:
        return tuple(-part for part in _key(request, self._order, self._requeue))

    def _find(self, request: Request) -> int | None:
        place = bisect_left(self._reversed, self._key(request), key=self._key)
        return place if place < len(self._reversed) and self._reversed[place] is request else None


def _key(request: Request, order: QueueOrder, requeue: Requeue) -> tuple[float, ...]:
    return order.measure(request), *requeue.place(request), request.num
