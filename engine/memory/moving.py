"""Blocks whose content goes elsewhere within the pool, for compaction."""

from engine.memory.blocks import CACHED, FREE, TRANSFER
from engine.memory.lifecycle import HeldBlocks, PoolError
from engine.memory.prefix import NO_HASH
from kvtop.protocol import BLOCK_STATES


class MovableBlocks(HeldBlocks):
    """Whatever is known of a block can be said of another one from then on."""

    def move(self, source: int, target: int) -> None:
        """All that is known of ``source`` is said of ``target`` from now on, and ``source`` is free.

        The caller sees to it that tables and pins follow, and that the KV is copied before anybody reads or writes
        either block. Raises `PoolError` unless ``target`` is free and ``source`` has content and is not in transfer.
        """
        state = self._state[source]
        if self._state[target] != FREE or state in (FREE, TRANSFER) or self._copies[source]:
            raise PoolError(f"block {source} ({BLOCK_STATES[state]}) cannot be moved to block {target}")
        self.free_list.remove(target)
        for array, nothing in self._content:
            array[target], array[source] = array[source], nothing
        if source in self.sharers:
            self.sharers[target] = self.sharers.pop(source)
        if (hash_ := self._hash[target]) != NO_HASH:
            self.index.replace(hash_, source, target)
            self._rehashed.update((source, target))
        if state == CACHED:
            self.evictable.move(source, target)
        self._enter(target, state)
        # At the end of the list: others are taken before, so that what was freed stays so for long.
        self.free_list.append(source)
        self._enter(source, FREE)
