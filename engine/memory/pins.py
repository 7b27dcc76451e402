"""Pinned prefixes: cached content that eviction never takes until somebody unpins it.

A pin holds the complete blocks of one sequence that could be found when it was made, from the first on. Several pins
may hold one block. A pinned block in use looks like any other; when nobody holds it any more it is *pinned*, not
cached. What the sequence computes later is not pinned with it: pin again for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.memory.places import cached_table
from engine.memory.pool import BlockPool
from engine.requests.request import NULL_BLOCK
from engine.words import counted


@dataclass(slots=True)
class Pin:
    """``name`` is the id of the request whose prefix it is, or what the caller chose; ``num`` the request's, if any."""

    name: str
    num: int | None
    blocks: list[int]
    hashes: list[int]
    """Of the blocks, in the same order."""


class Pins:
    """All pins by name, oldest first. Errors are ValueError in one sentence; nothing has changed then."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.by_name: dict[str, Pin] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def pin(self, name: str, num: int | None, hashes: Sequence[int], *, limit: float, promised: int) -> Pin:
        """Pin the longest prefix of ``hashes`` (by place) that a request could go on from; replaces an earlier pin of
        this name.

        ``limit``: share of the pool that may be pinned. ``promised`` blocks must stay available to running requests.
        """
        pool, most = self._pool, int(limit * self._pool.total)
        found = cached_table(pool, len(hashes), hashes.__getitem__)
        blocks = [block for block in found if block != NULL_BLOCK]
        if not blocks:
            raise ValueError(f"no complete block of {name} is in the prefix cache, so there is nothing to pin")
        before = self.by_name.get(name)
        freed = [] if before is None else [block for block in before.blocks if pool.pins[block] == 1]
        fresh = [block for block in blocks if not pool.pins[block]]
        left = pool.pinned_total - len(set(freed) - set(blocks)) + len(fresh)
        if left > most:
            raise ValueError(
                f"pinning {counted(len(blocks), 'block')} of {name} would make {left} pinned; pin_limit={limit:g} allows "
                f"{most} of {pool.total}"
            )
        taken = sum(pool.is_evictable(block) for block in fresh)
        if promised > pool.available - taken:
            raise ValueError(
                f"pinning {counted(taken, 'cached block')} of {name} would leave {pool.available - taken} available; "
                f"{promised} are promised to running requests"
            )
        for block in blocks:
            pool.pin(block)
        if before is not None:
            self.unpin(name)
        self.by_name[name] = Pin(
            name, num, blocks, [hash_ for block, hash_ in zip(found, hashes, strict=False) if block != NULL_BLOCK]
        )
        return self.by_name[name]

    def unpin(self, name: str) -> Pin:
        """Its blocks can be evicted again, but for those that other pins hold."""
        pin = self.by_name.pop(name, None)
        if pin is None:
            raise ValueError(f"{name[:80]} is not pinned")
        for block in pin.blocks:
            self._pool.unpin(block)
        return pin

    def clear(self) -> int:
        """Unpin all. Returns how many pins there were."""
        names = list(self.by_name)
        for name in names:
            self.unpin(name)
        return len(names)

    def beyond(self, limit: float) -> list[str]:
        """Which pins, newest first, would have to go for ``limit`` to hold."""
        most, left = int(limit * self._pool.total), self._pool.pinned_total
        gone: list[str] = []
        held = self._pool.pins.copy()
        for name, pin in reversed(self.by_name.items()):
            if left <= most:
                break
            held[pin.blocks] -= 1
            left -= int((held[pin.blocks] == 0).sum())
            gone.append(name)
        return gone

    def follow(self, moves: Mapping[int, int]) -> None:
        """Blocks were moved, from key to value."""
        for pin in self.by_name.values():
            if not moves.keys().isdisjoint(pin.blocks):
                pin.blocks = [moves.get(block, block) for block in pin.blocks]


def pin_violations(pins: Pins, pool: BlockPool) -> list[str]:
    """What is wrong in the books of pins, for the ledger. The blocks of pins must be ones that the pool has."""
    found = []
    counted_anew = np.zeros(pool.total, np.int64)
    for pin in pins.by_name.values():
        counted_anew[pin.blocks] += 1
        gone = pool.hash[pin.blocks] != np.array(pin.hashes, dtype=np.uint64)
        for block in np.array(pin.blocks)[gone].tolist():
            found.append(f"block {block} is pinned for {pin.name}, but its content there is gone")
    for block in np.flatnonzero(pool.pins != counted_anew).tolist():
        found.append(f"block {block} counts {pool.pins[block]} pins, but {counted_anew[block]} hold it")
    if pool.pinned_total != (total := int(np.count_nonzero(counted_anew))):
        found.append(f"{total} blocks are pinned, the gauge says {pool.pinned_total}")
    return found
