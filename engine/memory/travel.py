"""Blocks that are copied to and from other tiers: neither taken for anything else nor, while they come, read or written."""

from collections.abc import Container

from engine.memory.blocks import ACTIVE, CACHED, TRANSFER
from engine.memory.lifecycle import HeldBlocks, PoolError
from engine.memory.prefix import NO_HASH


class TravellingBlocks(HeldBlocks):
    """A copy holds its block from `hold`, `hold_next_evicted` or `expect` to `unhold` or `arrive`; else they raise `PoolError`."""

    def hold(self, block: int, *, incoming: bool = False) -> None:
        """A copy of ``block``, which somebody holds, begins. Until it ends the block is taken for nothing else, even
        when nobody holds it any more. ``incoming``: into the block, which is neither read nor written meanwhile."""
        if not self._refs[block]:
            raise PoolError(f"block {block}, which nobody holds, cannot be copied")
        self._copies[block] += 1
        if incoming:
            self._incoming[block] = True
            self._enter(block, TRANSFER)

    def hold_next_evicted(self, now: float) -> int:
        """A copy of the cached block that would be evicted next begins. Raises `FreeListError` when none is cached."""
        block = self.evictable.take(now)
        self._copies[block] += 1
        self.leaving += 1
        self._enter(block, TRANSFER)
        return block

    def expect(self, now: float, group: int, keep: Container[int]) -> int | None:
        """A block for tokens of ``group`` that nobody holds and a copy begins to bring: until that ends it can neither be
        found nor taken. None where none is free and one of ``keep`` would be evicted next."""
        block = self.allocator.take(now, None)
        if self._state[block] == CACHED:
            if block in keep:
                self.allocator.cache(block)
                return None
            self._evict(block)
        self._uses[block] = 1
        self.reset_priority(block)
        self._group[block] = group
        self._fill[block] = 0
        self._sealed[block] = False
        self._last_use[block] = now
        self._copies[block] = 1
        self._incoming[block] = True
        self.leaving += 1
        self._enter(block, TRANSFER)
        return block

    def arrive(self, block: int, hash_: int, parent: int, tier: int) -> None:
        """The content that ``block``, from `expect`, waited for has come from ``tier``, complete: it is cached, and can be
        found."""
        if not self._incoming[block] or self._refs[block] or self._copies[block] != 1:
            raise PoolError(f"block {block} does not wait for content that nobody holds")
        self._fill[block] = self.block_size
        self._name(block, hash_, parent)
        self.prefetched[block] = tier
        self.unhold(block)

    def unhold(self, block: int, *, forget: bool = False) -> None:
        """A copy of ``block`` has ended. ``forget``: what it holds is safe elsewhere, so if nobody holds it, it is free."""
        if self._copies[block] < 1:
            raise PoolError(f"no copy of block {block} is under way")
        self._copies[block] -= 1
        if self._copies[block]:
            return
        arrived, self._incoming[block] = self._incoming[block], False
        if self._refs[block]:
            if arrived:
                self._enter(block, ACTIVE)
            return
        if not self._pins[block]:
            self.leaving -= 1
            if forget and self._hash[block] != NO_HASH:
                self.forget(block)
        self._rest(block)
