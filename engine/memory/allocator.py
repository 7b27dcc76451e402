"""The blocks nobody holds, and which of them is taken next."""

from typing import Protocol

from engine.memory.blocks import Blocks
from engine.memory.eviction import EVICTION_ORDERS, EvictionOrder
from engine.memory.free_list import FreeList


class Strategy(Protocol):
    """Where in the pool the blocks of one table go."""

    name: str

    def take(self, free: FreeList, after: int | None) -> int:
        """Remove that one of the ``free`` blocks (not empty) that a table gets whose latest block, of the same KV group,
        is ``after`` (None: it has none yet)."""
        ...

    def room(self, free: FreeList, evictable: EvictionOrder) -> int:
        """How many blocks a table that has none yet can get, if it gets them now."""
        ...


class Paged:
    """Any block will do: the one freed last, which is the likeliest to be in a cache of the device."""

    name = "paged"

    def take(self, free: FreeList, after: int | None) -> int:
        return free.pop_head()

    def room(self, free: FreeList, evictable: EvictionOrder) -> int:
        return len(free) + len(evictable)


class Allocator:
    """``free_list``: blocks without content. ``evictable``: cached ones, which are taken when none is free, in the order
    of the policy ``eviction``. Errors are `FreeListError`."""

    def __init__(self, blocks: Blocks, strategy: Strategy) -> None:
        self._blocks = blocks
        self.strategy = strategy
        self.free_list = FreeList(blocks.total)
        self.eviction = "lru"
        self.evictable: EvictionOrder = EVICTION_ORDERS[self.eviction](blocks)

    def __len__(self) -> int:
        return len(self.free_list) + len(self.evictable)

    def take(self, now: float, after: int | None) -> int:
        """Remove a free block, of several the strategy's choice, or the cached one to be evicted at ``now``."""
        return self.strategy.take(self.free_list, after) if len(self.free_list) else self.evictable.take(now)

    def cache(self, block: int) -> None:
        """Nobody holds ``block`` any more, and its content can still be found."""
        self._blocks.stamp_idle(block)
        self.evictable.insert(block)

    def set_eviction(self, name: str) -> None:
        """Evict by another policy from now on. O(cached blocks): the order is made anew from the arrays."""
        idle_since = self._blocks.idle_since
        blocks = sorted(self.evictable, key=idle_since.data.__getitem__)
        self.eviction, self.evictable = name, EVICTION_ORDERS[name](self._blocks)
        for block in blocks:
            self.evictable.insert(block)
