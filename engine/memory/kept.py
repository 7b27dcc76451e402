"""Pins hold blocks whose content must stay, in use or not."""

from engine.memory.blocks import PINNED
from engine.memory.lifecycle import HeldBlocks, PoolError
from engine.memory.prefix import NO_HASH


class KeptBlocks(HeldBlocks):
    """What `engine.memory.pins` holds is not evicted: when nobody else holds it, it is pinned, not cached.

    Methods raise `PoolError` for a block that cannot be pinned, or is not.
    """

    def pin(self, block: int) -> None:
        """One more pin holds ``block``, which has a hash: it is not evicted. Raises `PoolError` if it has none."""
        if self._hash[block] == NO_HASH:
            raise PoolError(f"block {block} cannot be pinned: it has no hash")
        self._pins[block] += 1
        if self._pins[block] > 1:
            return
        self.pinned_total += 1
        if self._refs[block]:
            return
        if self._copies[block]:
            self.leaving -= 1
        else:
            self.evictable.remove(block)
            self._enter(block, PINNED)

    def unpin(self, block: int) -> None:
        """One pin less holds ``block``. When it was the last and nobody holds the block, it is cached, released now."""
        if self._pins[block] < 1:
            raise PoolError(f"block {block} is not pinned")
        self._pins[block] -= 1
        if self._pins[block]:
            return
        self.pinned_total -= 1
        if self._refs[block]:
            return
        if self._copies[block]:
            self.leaving += 1
        else:
            self._rest(block)
