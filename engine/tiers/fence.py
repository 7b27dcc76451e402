"""When the device's memory may be touched from outside the stream that the model computes on.

Work on a device is queued: when a batch, or block copies alone, were handed over, their bytes need not have moved. A
fence stands after all that was queued before it.
"""

from collections.abc import Callable
from typing import Protocol


class Fence(Protocol):
    def wait(self) -> None:
        """Until the device has done all that was queued before this was made. Called by the mover's thread."""
        ...


class _Passed:
    def wait(self) -> None:
        pass


PASSED: Fence = _Passed()
"""For devices on which nothing is queued: what was asked for is done."""

Fences = Callable[[], Fence]
"""Makes a fence after all that is queued now. Called by the engine's thread, which queues."""


def nothing_queued() -> Fence:
    return PASSED
