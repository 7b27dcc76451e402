"""The block pool: who holds which block of KV memory. What a block goes through is in `engine.memory.lifecycle`; what pins,
copies to other tiers and compaction do to it in `kept`, `travel` and `moving` beside it.

Nothing here is O(blocks) but what is asked for keyframes, `reset_hashes` (O(hashed blocks)) and `set_eviction`.
"""

from engine.memory.kept import KeptBlocks
from engine.memory.lifecycle import PoolError
from engine.memory.moving import MovableBlocks
from engine.memory.prefix import NO_HASH
from engine.memory.travel import TravellingBlocks


class BlockPool(KeptBlocks, TravellingBlocks, MovableBlocks):
    """All of one tier's blocks. The arrays are described at `Blocks`; read them, and change them by the methods."""

    def reset_hashes(self) -> int:
        """Drop every hash. Cached blocks become free; blocks in use keep their KV and stay sealed. Returns how many.

        Raises `PoolError` while blocks are pinned.
        """
        if self.pinned_total:
            raise PoolError(f"the hashes of {self.pinned_total} pinned blocks cannot be dropped")
        blocks = [block for _, block in self.index.pairs()]
        # In the order of their release, as they would have been evicted by lru.
        for block in sorted(self.evictable, key=self._idle_since.__getitem__):
            self.evictable.remove(block)
            self.free_list.append(block)
        for block in blocks:
            self._hash[block] = NO_HASH
            self.prefetched[block] = 0
            self._rehashed.add(block)
            self._mark(block)
            if self._refs[block] == 0 and not self._copies[block]:
                self._clear(block)
        self.index.clear()
        return len(blocks)

    def set_eviction(self, name: str) -> None:
        """Evict by another policy from now on. O(cached blocks)."""
        self.allocator.set_eviction(name)
