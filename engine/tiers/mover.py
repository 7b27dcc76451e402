"""Copies blocks between tiers on a thread of its own, one after the other, those that a request waits for first."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.tiers.fence import PASSED, Fence
from engine.tiers.store import BlockStore

QUEUE_LIMIT = 4096
"""Copies that can be under way at the same time."""


class Address(NamedTuple):
    """A block's place in a tier, and which of its contents is meant (0 on the device)."""

    tier: int
    slot: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """One block to be copied. ``urgent``: a request waits for it. ``after``: what it must not be begun before."""

    num: int
    source: Address
    target: Address
    urgent: bool = False
    after: Fence = PASSED


@dataclass(frozen=True, slots=True)
class CopyResult:
    """``error``: why it failed, in a sentence; None when the target holds the block."""

    copy: Copy
    error: str | None
    bytes: int
    ms: float


class CopyService(Protocol):
    """What the tiers need of a mover; tests bring one whose copies come late, out of order or not at all."""

    @property
    def room(self) -> int:
        """Copies that can be submitted now."""
        ...

    def submit(self, copy: Copy) -> None:
        """Never waits. Copies under way must not depend on one another: their order is the mover's."""
        ...

    def poll(self) -> list[CopyResult]:
        """What ended since the last call. Never waits."""
        ...

    def wait(self, seconds: float) -> bool:
        """Until something ended; False when nothing did in that time."""
        ...

    def close(self) -> None: ...


class Mover:
    """The thread. Create it, `submit`, `poll` between iterations, `close`."""

    def __init__(self, stores: Mapping[int, BlockStore], limit: int = QUEUE_LIMIT) -> None:
        self._stores = dict(stores)
        self._limit = limit
        self._changed = threading.Condition()
        self._urgent: deque[Copy] = deque()
        self._later: deque[Copy] = deque()
        self._done: deque[CopyResult] = deque()
        self._under_way = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="tier-mover", daemon=True)
        self._thread.start()

    @property
    def room(self) -> int:
        with self._changed:
            return self._limit - self._under_way

    def submit(self, copy: Copy) -> None:
        """Raises RuntimeError beyond `room` and after `close`."""
        with self._changed:
            if self._stopping or self._under_way >= self._limit:
                raise RuntimeError("the mover is closed" if self._stopping else "the mover's queue is full")
            (self._urgent if copy.urgent else self._later).append(copy)
            self._under_way += 1
            self._changed.notify_all()

    def poll(self) -> list[CopyResult]:
        with self._changed:
            done = list(self._done)
            self._done.clear()
            self._under_way -= len(done)
            return done

    def wait(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._done), seconds)

    def close(self) -> None:
        """Ends the thread after the copy in progress, and closes the stores. What waits is not copied any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(5.0)
        for store in self._stores.values():
            store.close()

    def _work(self) -> None:
        while (copy := self._next()) is not None:
            result = self._copy(copy)
            with self._changed:
                self._done.append(result)
                self._changed.notify_all()

    def _next(self) -> Copy | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._urgent or self._later)
            if self._stopping:
                return None
            return self._urgent.popleft() if self._urgent else self._later.popleft()

    def _copy(self, copy: Copy) -> CopyResult:
        source, target = self._stores[copy.source.tier], self._stores[copy.target.tier]
        began = time.perf_counter()
        error = None
        try:
            copy.after.wait()
            data = source.read(copy.source.slot, copy.source.generation)
            target.write(copy.target.slot, copy.target.generation, data)
        except Exception as fault:  # Whatever it is, the engine must hear of it: a silent thread would hang requests.
            error = str(fault) or type(fault).__name__
        return CopyResult(copy, error, target.block_bytes, 1000.0 * (time.perf_counter() - began))
