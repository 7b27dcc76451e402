"""Orders of eviction: which cached block gives up its content when no block is free.

Blocks without content are always taken before; only among cached ones does the order matter. An order holds exactly
the blocks that are cached and may be evicted, and stands on what the pool's arrays say of them (``uses``,
``idle_since``, ``sealed_at``, ``priority``), so that one can be built from the arrays at any time: that is how the
policy is switched. The ledger compares the two.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.memory.blocks import Blocks
from engine.memory.free_list import FreeList, FreeListError
from engine.memory.prefix import NO_HASH, HashIndex

PROTECTED_USES = 2
"""Tables that must have held a block's content for it to enter slru's protected segment: it was hit once at least."""

PROTECTED_SHARE = 0.8
"""Of the pool, at most, in slru's protected segment; the least recently used beyond go back to probation."""


class EvictionOrder(Protocol):
    """Cached blocks in the order of their eviction. Each operation on one block is O(1) or O(log blocks).

    Iterating gives every block in it once, not always in order. Errors are `FreeListError`.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def insert(self, block: int) -> None:
        """``block`` became cached: nobody holds it any more."""

    def remove(self, block: int) -> None:
        """``block`` leaves, from wherever it stands: it was hit or pinned."""

    def take(self, now: float) -> int:
        """Remove the block to be evicted at ``now`` (monotonic seconds) and return it."""

    def restamp(self, block: int) -> None:
        """What the arrays say of ``block``, which is in the order, has changed."""

    def move(self, source: int, target: int) -> None:
        """``target`` takes the place of ``source``, whose content and entries in the arrays it has now."""

    def misplaced(self) -> list[int]:
        """Blocks in the order whose place is not the one that the arrays give them. O(blocks), for the ledger."""

    def members(self, first: int, end: int) -> NDArray[np.bool_]:
        """Which of the blocks ``first`` up to ``end`` are in the order."""

    def unlinked(self, first: int, end: int) -> list[int]:
        """Of these, the members that stand at a wrong place, as far as they and their neighbours tell."""


class Recency:
    """A linked list in the order of release: lru takes its head, mru its tail. O(1)."""

    def __init__(self, blocks: Blocks, *, newest_first: bool = False) -> None:
        self._blocks = blocks
        self._list = FreeList(blocks.total, filled=False)
        self._pop = self._list.pop_tail if newest_first else self._list.pop_head
        self.insert = self._list.append
        self.remove = self._list.remove
        self.move = self._list.replace

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[int]:
        return iter(self._list)

    def take(self, now: float) -> int:
        return self._pop()

    def restamp(self, block: int) -> None:
        """Nothing it goes by changes while a block is cached."""

    def misplaced(self) -> list[int]:
        return _not_ascending(self._list, self._blocks.idle_since)

    def members(self, first: int, end: int) -> NDArray[np.bool_]:
        return self._list.members(first, end)

    def unlinked(self, first: int, end: int) -> list[int]:
        return _out_of_place(self._list, self._blocks.idle_since, first, end)


class Segmented:
    """slru: blocks that were hit stand in a protected list, the others in one on probation, which is taken first."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._probation = FreeList(blocks.total, filled=False)
        self._protected = FreeList(blocks.total, filled=False)
        self._room = max(1, int(PROTECTED_SHARE * blocks.total))

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def __iter__(self) -> Iterator[int]:
        yield from self._probation
        yield from self._protected

    def insert(self, block: int) -> None:
        if self._blocks.uses[block] < PROTECTED_USES:
            self._probation.append(block)
            return
        self._protected.append(block)
        if len(self._protected) > self._room:
            demoted = self._protected.pop_head()
            self._blocks.stamp_idle(demoted)
            self._probation.append(demoted)

    def remove(self, block: int) -> None:
        self._segment(block).remove(block)

    def take(self, now: float) -> int:
        return (self._probation if len(self._probation) else self._protected).pop_head()

    def restamp(self, block: int) -> None:
        """Nothing it goes by changes while a block is cached."""

    def move(self, source: int, target: int) -> None:
        self._segment(source).replace(source, target)

    def misplaced(self) -> list[int]:
        unearned = [block for block in self._protected if self._blocks.uses[block] < PROTECTED_USES]
        wrong = [_not_ascending(segment, self._blocks.idle_since) for segment in (self._probation, self._protected)]
        return [*unearned, *wrong[0], *wrong[1]]

    def members(self, first: int, end: int) -> NDArray[np.bool_]:
        # Exactly one of them: a block in both is in neither.
        return self._probation.members(first, end) ^ self._protected.members(first, end)

    def unlinked(self, first: int, end: int) -> list[int]:
        earned = self._blocks.uses[first:end] >= PROTECTED_USES
        unearned = np.flatnonzero(self._protected.members(first, end) & ~earned) + first
        idle_since = self._blocks.idle_since
        wrong = [_out_of_place(segment, idle_since, first, end) for segment in (self._probation, self._protected)]
        return [*unearned.tolist(), *wrong[0], *wrong[1]]

    def _segment(self, block: int) -> FreeList:
        return self._protected if block in self._protected else self._probation


class Ranked:
    """A heap by one of the pool's arrays, smallest first; of equals, the one idle longest. O(log blocks).

    An entry that no longer stands for its block's place stays in the heap until it comes up or the heap is cleared
    out; ``_rank`` and ``_idle`` say which entry is the right one (``_idle`` 0: not in the order).
    """

    def __init__(self, blocks: Blocks, column: NDArray[np.generic]) -> None:
        self._blocks = blocks
        self._column = column
        self._value = column.data
        self._heap: list[tuple[int, int, int]] = []
        self._rank = array("q", bytes(8 * blocks.total))
        self._idle = array("q", bytes(8 * blocks.total))
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(np.frombuffer(self._idle, np.int64)).tolist())

    def insert(self, block: int) -> None:
        if self._idle[block]:
            raise FreeListError(f"block {block} is in the eviction order already")
        self._length += 1
        self._enter(block)

    def remove(self, block: int) -> None:
        if not self._idle[block]:
            raise FreeListError(f"block {block} is not in the eviction order")
        self._idle[block] = 0
        self._length -= 1

    def take(self, now: float) -> int:
        while self._heap:
            rank, idle, block = heappop(self._heap)
            if self._idle[block] == idle and self._rank[block] == rank and self._may_go(block):
                self.remove(block)
                return block
        raise FreeListError("no block is free")

    def restamp(self, block: int) -> None:
        if not self._idle[block]:
            raise FreeListError(f"block {block} is not in the eviction order")
        self._enter(block)

    def move(self, source: int, target: int) -> None:
        Ranked.remove(self, source)
        Ranked.insert(self, target)

    def misplaced(self) -> list[int]:
        blocks = np.flatnonzero(np.frombuffer(self._idle, np.int64))
        rank, idle = (np.frombuffer(own, np.int64)[blocks] for own in (self._rank, self._idle))
        wrong = (rank != self._column[blocks]) | (idle != self._blocks.idle_since[blocks])
        found = {block for _, _, block in self._standing()}
        lost = [block for block in blocks.tolist() if block not in found and self._may_go(block)]
        return [*blocks[wrong].tolist(), *lost]

    def members(self, first: int, end: int) -> NDArray[np.bool_]:
        return np.asarray(np.frombuffer(self._idle, np.int64)[first:end] != 0)

    def unlinked(self, first: int, end: int) -> list[int]:
        """What is lost from the heap is not looked for: only a walk through all of it could tell."""
        members = np.flatnonzero(self.members(first, end)) + first
        rank, idle = (np.frombuffer(own, np.int64)[members] for own in (self._rank, self._idle))
        wrong = (rank != self._column[members]) | (idle != self._blocks.idle_since[members])
        out: list[int] = members[wrong].tolist()
        return out

    def _may_go(self, block: int) -> bool:
        """Whether ``block`` may be evicted now; when it may not, `_push` follows when it may."""
        return True

    def _enter(self, block: int) -> None:
        self._rank[block] = self._value[block]
        self._idle[block] = self._blocks.idle_since[block]
        self._push(block)

    def _push(self, block: int) -> None:
        heappush(self._heap, (self._rank[block], self._idle[block], block))
        if len(self._heap) > 2 * self._length + 64:
            self._heap = list(self._standing())
            heapify(self._heap)

    def _standing(self) -> set[tuple[int, int, int]]:
        """The entries that stand for their block's place."""
        return {entry for entry in self._heap if entry[:2] == (self._rank[entry[2]], self._idle[entry[2]])}


class Retained(Ranked):
    """By retention priority, lowest first. A priority that has run out counts as the default from the next take on."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks, blocks.priority)
        self._ends: list[tuple[float, int]] = []

    def take(self, now: float) -> int:
        while self._ends and self._ends[0][0] <= now:
            end, block = heappop(self._ends)
            if self._ends_then(end, block):
                self._blocks.reset_priority(block)
                self.restamp(block)
        return super().take(now)

    def _enter(self, block: int) -> None:
        super()._enter(block)
        if (end := float(self._blocks.expires[block])) != np.inf:
            heappush(self._ends, (end, block))
            if len(self._ends) > 2 * self._length + 64:
                self._ends = list({end for end in self._ends if self._ends_then(*end)})
                heapify(self._ends)

    def _ends_then(self, end: float, block: int) -> bool:
        return bool(self._idle[block] and self._blocks.expires[block] == end)


class LeafFirst(Ranked):
    """The least recently used of those blocks that no other block in the order extends."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks, np.zeros(blocks.total, np.uint8))
        self._members = HashIndex()
        self._children: dict[int, int] = {}

    def insert(self, block: int) -> None:
        super().insert(block)
        known = self._blocks
        self._members.add(known.hash_of(block), block)
        if (parent := known.parent_of(block)) != NO_HASH:
            self._children[parent] = self._children.get(parent, 0) + 1

    def remove(self, block: int) -> None:
        super().remove(block)
        known = self._blocks
        self._members.remove(known.hash_of(block), block)
        if (parent := known.parent_of(block)) == NO_HASH:
            return
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._children[parent]
            for leaf in self._members.blocks(parent):
                self._push(leaf)

    def move(self, source: int, target: int) -> None:
        super().move(source, target)
        self._members.replace(self._blocks.hash_of(target), source, target)

    def misplaced(self) -> list[int]:
        known, blocks = self._blocks, list(self)
        children = Counter(known.parent_of(block) for block in blocks)
        children.pop(NO_HASH, None)
        wrong = {hash_ for hash_ in children | self._children if children[hash_] != self._children.get(hash_, 0)}
        strays = [block for block in blocks if known.hash_of(block) in wrong or known.parent_of(block) in wrong]
        strays += [block for hash_, block in self._members.pairs() if known.hash_of(block) != hash_]
        return [*super().misplaced(), *strays]

    def _may_go(self, block: int) -> bool:
        return self._blocks.hash_of(block) not in self._children


def _out_of_place(blocks: FreeList, column: NDArray[np.int64], first: int, end: int) -> list[int]:
    """Of the blocks ``first`` up to ``end``, those in the list that it does not link, or that do not come before the next."""
    members = np.flatnonzero(blocks.members(first, end)) + first
    after = blocks.next[members]
    inner = after != blocks.sentinel
    wrong = column[members[inner]] >= column[after[inner]]
    return [*blocks.unlinked(first, end), *members[inner][wrong].tolist()]


def _not_ascending(blocks: FreeList, column: NDArray[np.int64]) -> list[int]:
    walked = np.fromiter(blocks, dtype=np.intp)
    out_of_order: list[int] = walked[1:][np.diff(column[walked]) <= 0].tolist()
    return out_of_order


EVICTION_ORDERS: dict[str, Callable[[Blocks], EvictionOrder]] = {
    "lru": Recency,
    "fifo": lambda blocks: Ranked(blocks, blocks.sealed_at),
    "mru": lambda blocks: Recency(blocks, newest_first=True),
    "lfu": lambda blocks: Ranked(blocks, blocks.uses),
    "slru": Segmented,
    "priority": Retained,
    "leaf_first": LeafFirst,
}
"""A new, empty order over the pool's blocks, by the name of the policy."""
