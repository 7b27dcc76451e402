"""A list of blocks nobody holds, in the order in which they will be taken: doubly linked, kept in two arrays.

Every operation on one block is O(1), also from the middle (a prefix hit takes its block out of the list wherever
it stands). After vLLM's free block queue, with array indices instead of linked objects.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

ABSENT = -1


class FreeListError(RuntimeError):
    """A block was put in twice, or taken out where it is not: someone freed or took it wrongly."""


class FreeList:
    """Of the blocks ``0 … blocks-1``: all of them in ascending order at first, or none where not ``filled``.

    ``next[b]`` and ``prev[b]`` are the neighbours of block ``b``, `ABSENT` when it is not in the list; index
    ``blocks`` is the sentinel that joins tail and head.
    """

    def __init__(self, blocks: int, *, filled: bool = True) -> None:
        self.sentinel = blocks
        self.next: NDArray[np.int32] = np.arange(1, blocks + 2, dtype=np.int32)
        self.next[blocks] = 0
        self.prev: NDArray[np.int32] = np.arange(-1, blocks, dtype=np.int32)
        self.prev[0] = blocks
        if not filled:
            self.next[:blocks] = self.prev[:blocks] = ABSENT
            self.next[blocks] = self.prev[blocks] = blocks
        # Views that read and write plain Python ints, several times faster than indexing the arrays one by one.
        self._next = self.next.data
        self._prev = self.prev.data
        self._length = blocks if filled else 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, block: int) -> bool:
        return self._next[block] != ABSENT

    def __iter__(self) -> Iterator[int]:
        """From head to tail. Stops after as many steps as there are blocks, so that a broken list ends too."""
        block = self._next[self.sentinel]
        for _ in range(self.sentinel):
            if block in (self.sentinel, ABSENT):
                return
            yield block
            block = self._next[block]

    @property
    def head(self) -> int | None:
        """The block that will be taken next, None when the list is empty."""
        first = self._next[self.sentinel]
        return None if first == self.sentinel else first

    def append(self, block: int) -> None:
        """Put ``block`` at the end: it will be taken last. Raises `FreeListError` if it is in the list."""
        self._link(self._prev[self.sentinel], block, self.sentinel)

    def prepend(self, block: int) -> None:
        """Put ``block`` at the front: it will be taken next. Raises `FreeListError` if it is in the list."""
        self._link(self.sentinel, block, self._next[self.sentinel])

    def remove(self, block: int) -> None:
        """Take ``block`` out from wherever it is. Raises `FreeListError` if it is not in the list."""
        after, before = self._next[block], self._prev[block]
        if after == ABSENT:
            raise FreeListError(f"block {block} is not in the free list")
        self._next[before] = after
        self._prev[after] = before
        self._next[block] = self._prev[block] = ABSENT
        self._length -= 1

    def pop_head(self) -> int:
        """Take the first block. Raises `FreeListError` when there is none."""
        block = self._next[self.sentinel]
        if block == self.sentinel:
            raise FreeListError("no block is free")
        self.remove(block)
        return block

    def pop_tail(self) -> int:
        """Take the last block. Raises `FreeListError` when there is none."""
        block = self._prev[self.sentinel]
        if block == self.sentinel:
            raise FreeListError("no block is free")
        self.remove(block)
        return block

    def replace(self, old: int, new: int) -> None:
        """Put ``new`` where ``old`` stands. Raises `FreeListError` if ``old`` is not in the list or ``new`` is."""
        before = self._prev[old]
        self.remove(old)
        self._link(before, new, self._next[before])

    def _link(self, before: int, block: int, after: int) -> None:
        if self._next[block] != ABSENT:
            raise FreeListError(f"block {block} is in the free list already")
        self._next[block], self._prev[block] = after, before
        self._next[before] = self._prev[after] = block
        self._length += 1

    # For those who check it piece by piece.

    def members(self, first: int, end: int) -> NDArray[np.bool_]:
        """Which of the blocks ``first`` up to ``end`` are in the list."""
        return np.asarray(self.next[first:end] != ABSENT)

    def unlinked(self, first: int, end: int) -> list[int]:
        """Of these, the members whose neighbours do not name them as theirs."""
        members = np.flatnonzero(self.members(first, end)) + first
        after, before = self.next[members], self.prev[members]
        wrong = (self.prev[after] != members) | (self.next[before] != members)
        broken: list[int] = members[wrong].tolist()
        return broken
