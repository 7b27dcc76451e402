"""The books of one tier: which slot is free, being written, cached (found by its hash) or held for a swapped request.

Pure: no bytes, no threads. A slot's life: *free* → `take` → *transfer* while the copy into it is under way → `wrote` →
*cached* or *held*; `give_up` makes it free again. A slot that is being read (`start_read` … `end_read`) is neither
evicted nor freed before the last reader is done. Free slots are taken first, then cached ones, the least recently
used first.
"""

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from engine.memory.free_list import FreeList
from engine.memory.prefix import NO_HASH
from kvtop.protocol import BLOCK_STATES

FREE, CACHED, HELD, TRANSFER = (BLOCK_STATES.index(name) for name in ("free", "cached", "reserved", "transfer"))
"""State codes as frames carry them: a slot held for a swapped request is *reserved* for it."""

NOBODY = -1


class BooksError(RuntimeError):
    """The books were asked for something that would break them. A bug in the caller, never a user's fault."""


class TierBooks:
    """``slots`` slots of one tier, as arrays with one entry a slot: ``state``, ``hash`` (`NO_HASH`: none), ``owner``
    (num of the request it is held for, `NOBODY`), ``last_use`` (monotonic seconds, NaN: never), ``generation`` (rises
    with every new content), ``readers`` (copies out of it under way), ``fill`` (tokens it holds). Read them; change them
    by the methods, which raise `BooksError` for what a slot's state does not allow."""

    def __init__(self, tier: int, name: str, slots: int) -> None:
        self.tier = tier
        self.name = name
        self.slots = slots
        self.state: NDArray[np.uint8] = np.full(slots, FREE, np.uint8)
        self.hash: NDArray[np.uint64] = np.full(slots, NO_HASH, np.uint64)
        self.owner: NDArray[np.int32] = np.full(slots, NOBODY, np.int32)
        self.last_use: NDArray[np.float64] = np.full(slots, np.nan, np.float64)
        self.generation: NDArray[np.int64] = np.zeros(slots, np.int64)
        self.readers: NDArray[np.int32] = np.zeros(slots, np.int32)
        self.fill: NDArray[np.int32] = np.zeros(slots, np.int32)
        self.unused = FreeList(slots)
        """Slots that can be taken, next first: free ones, then cached ones that nobody reads."""
        self.index: dict[int, int] = {}
        """From hash to the cached slot, or the slot that this content is being written into."""
        self.counts = {FREE: slots, CACHED: 0, HELD: 0, TRANSFER: 0}
        self.dropped = 0
        """Cached blocks whose content was given up for new content, ever."""
        self.dirty: set[int] = set()
        """Slots that changed since the last frame."""

    @property
    def available(self) -> int:
        """Slots that `take` can give."""
        return len(self.unused)

    def lookup(self, hash_: int) -> int | None:
        """The slot that holds this content, complete and readable; None where there is none."""
        slot = self.index.get(hash_)
        return slot if slot is not None and self.state[slot] == CACHED else None

    def knows(self, hash_: int) -> bool:
        """It holds this content, or will when a copy under way has ended."""
        return hash_ in self.index

    def take(self, now: float, *, fill: int, hash_: int = NO_HASH, owner: int = NOBODY) -> int:
        """A slot for ``fill`` tokens to be written: for cached content with ``hash_``, or held for request ``owner``.

        Raises `BooksError` when none is `available` or the content is known already.
        """
        if not self.unused:
            raise BooksError(f"the {self.name} tier has no slot to give")
        if hash_ != NO_HASH and hash_ in self.index:
            raise BooksError(f"the {self.name} tier holds {hash_:016x} already")
        slot = self.unused.pop_head()
        if self.state[slot] == CACHED:
            self._forget(slot)
            self.dropped += 1
        self.hash[slot] = hash_
        self.owner[slot] = owner
        self.fill[slot] = fill
        self.generation[slot] += 1
        if hash_ != NO_HASH:
            self.index[hash_] = slot
        self._enter(slot, TRANSFER, now)
        return slot

    def wrote(self, slot: int, now: float, *, ok: bool) -> None:
        """The copy into ``slot`` has ended. It is kept if all went well and somebody still wants it."""
        if self.state[slot] != TRANSFER:
            raise BooksError(f"{self.name} slot {slot} was not being written")
        if ok and self.owner[slot] != NOBODY:
            self._enter(slot, HELD, now)
        elif ok and self.hash[slot] != NO_HASH:
            self._enter(slot, CACHED, now)
            self.unused.append(slot)
        else:
            self._clear(slot, now)

    def start_read(self, slot: int, now: float) -> int:
        """A copy out of ``slot`` begins; returns the generation it must find there."""
        if self.state[slot] not in (CACHED, HELD):
            raise BooksError(f"{self.name} slot {slot} has nothing to be read")
        if self.state[slot] == CACHED and not self.readers[slot]:
            self.unused.remove(slot)
        self.readers[slot] += 1
        self.last_use[slot] = now
        self.dirty.add(slot)
        return int(self.generation[slot])

    def end_read(self, slot: int, now: float) -> None:
        """A copy out of ``slot`` has ended. If nobody wants the slot any more, it is free with its last reader."""
        if self.readers[slot] < 1:
            raise BooksError(f"{self.name} slot {slot} is not being read")
        self.readers[slot] -= 1
        if self.readers[slot]:
            return
        if self.state[slot] == HELD and self.owner[slot] == NOBODY:
            self._clear(slot, now)
        elif self.state[slot] == CACHED:
            if self.hash[slot] == NO_HASH:
                self._clear(slot, now)
            else:
                self.unused.append(slot)

    def give_up(self, slot: int, now: float) -> None:
        """Nobody wants this slot's content any more. It is free now, or as soon as the copies of it have ended."""
        if self.state[slot] == FREE:
            raise BooksError(f"{self.name} slot {slot} is free already")
        self._forget(slot)
        self.owner[slot] = NOBODY
        self.dirty.add(slot)
        if self.state[slot] == TRANSFER or self.readers[slot]:
            return
        if self.state[slot] == CACHED:
            self.unused.remove(slot)
        self._clear(slot, now)

    def reset(self) -> int:
        """Forget all cached content. Returns how many blocks that were."""
        slots = list(self.index.values())
        for slot in slots:
            self.give_up(slot, float(self.last_use[slot]))
        return len(slots)

    def forget(self, hashes: Set[int]) -> None:
        """Nobody finds this content here any more."""
        for slot in [self.index[hash_] for hash_ in hashes if hash_ in self.index]:
            self.give_up(slot, float(self.last_use[slot]))

    def oldest_cached(self, limit: int) -> list[int]:
        """The cached slots that would be given up first, at most ``limit``."""
        found: list[int] = []
        for slot in self.unused:
            if self.state[slot] == CACHED:
                found.append(slot)
                if len(found) >= limit:
                    break
        return found

    def _forget(self, slot: int) -> None:
        hash_ = int(self.hash[slot])
        if hash_ != NO_HASH:
            del self.index[hash_]
            self.hash[slot] = NO_HASH

    def _clear(self, slot: int, now: float) -> None:
        self._forget(slot)
        self.owner[slot] = NOBODY
        self.fill[slot] = 0
        self._enter(slot, FREE, now)
        self.unused.prepend(slot)

    def _enter(self, slot: int, state: int, now: float) -> None:
        self.counts[int(self.state[slot])] -= 1
        self.counts[state] += 1
        self.state[slot] = state
        self.last_use[slot] = now
        self.dirty.add(slot)
