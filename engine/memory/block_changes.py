"""The pool's blocks in the protocol's terms: runs of equal neighbours, hashes and ages, of all or of those that changed."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.memory.column_copy import ColumnCopy
from engine.memory.prefix import NO_HASH
from kvtop.protocol import BlockAge, BlockHash, BlockRun


class BlockChanges:
    """Which blocks changed since they were last told. The pool marks them; costs follow what changed.

    By block: ``columns`` as a run tells them (state, owner, references, fill, tier, group), ``hash`` and ``last_use``
    (monotonic seconds).
    """

    def __init__(
        self, columns: Sequence[NDArray[Any]], hash_: NDArray[np.uint64], last_use: NDArray[np.float64]
    ) -> None:
        self._columns, self._hash, self._last_use = tuple(columns), hash_, last_use
        self._is_dirty = np.zeros(len(hash_), np.uint8).data
        self._dirty: list[int] = []
        self.rehashed: set[int] = set()
        """Blocks that got or lost a hash; each is marked as well."""
        self._copied: ColumnCopy | None = None
        self.copy: ColumnCopy | None = None
        """Where somebody is copying the pool's arrays: it learns of what changed when the frames do."""

    def mark(self, block: int) -> None:
        """Something about ``block`` changed."""
        if not self._is_dirty[block]:
            self._is_dirty[block] = 1
            self._dirty.append(block)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._dirty)

    def take(self) -> tuple[list[BlockRun], list[BlockHash]]:
        """Runs of the blocks, and hashes of the blocks, that changed since the last call; both ascending."""
        if not self._dirty:
            return [], []
        dirty = sorted(self._dirty)
        for block in dirty:
            self._is_dirty[block] = 0
        self._dirty.clear()
        hashes: list[BlockHash] = [(block, self._hex(block)) for block in sorted(self.rehashed)]
        self.rehashed.clear()
        blocks = np.array(dirty, dtype=np.intp)
        if self.copy is not None:
            self.copy.patch(blocks)
        return self._runs(blocks), hashes

    def prepare_copy(self) -> ColumnCopy:
        """Memory for `start_copy`, the same each time: to have it costs milliseconds. Before the engine serves."""
        if self._copied is None:
            self._copied = ColumnCopy((*self._columns, self._hash, self._last_use))
        return self._copied

    def start_copy(self) -> ColumnCopy:
        """A copy of what viewers are told of blocks: the columns of a run, then ``hash`` and ``last_use``. The one before it
        must not be read any more."""
        self.copy = self.prepare_copy()
        self.copy.start()
        return self.copy

    def forget(self) -> None:
        """Nobody is to be told of what changed up to now."""
        for block in self._dirty:
            self._is_dirty[block] = 0
        self._dirty.clear()
        self.rehashed.clear()

    def all_runs(self) -> list[BlockRun]:
        """Every block, as the fewest runs."""
        return self._runs(None)

    def all_hashes(self) -> list[BlockHash]:
        """Every block that has a hash, ascending."""
        hashes = self._hash
        hashed = np.flatnonzero(hashes)
        return [(block, f"{value:016x}") for block, value in zip(hashed.tolist(), hashes[hashed].tolist(), strict=True)]

    def all_ages(self, now: float) -> list[BlockAge]:
        """Seconds (to the millisecond) since the last use of every block that was ever used, equal ones joined."""
        last_use = self._last_use
        used = np.flatnonzero(~np.isnan(last_use))
        if not len(used):
            return []
        ages = np.round(np.maximum(now - last_use[used], 0.0), 3)
        first, counts = run_bounds(used, [ages])
        return list(zip(used[first].tolist(), counts.tolist(), ages[first].tolist(), strict=True))

    def _runs(self, blocks: NDArray[np.intp] | None) -> list[BlockRun]:
        columns: list[NDArray[np.generic]] = [a if blocks is None else a[blocks] for a in self._columns]
        first, counts = run_bounds(blocks, columns)
        starts = first if blocks is None else blocks[first]
        rows = zip(starts.tolist(), counts.tolist(), *(c[first].tolist() for c in columns), strict=True)
        return cast("list[BlockRun]", list(rows))

    def _hex(self, block: int) -> str | None:
        value = int(self._hash[block])
        return None if value == NO_HASH else f"{value:016x}"


def run_bounds(
    blocks: NDArray[np.intp] | None, columns: Sequence[NDArray[np.generic]]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where runs of neighbouring blocks with equal columns begin, and how long they are. ``blocks`` None: all."""
    size = len(columns[0])
    breaks = np.zeros(size, np.bool_)
    breaks[0] = True
    if blocks is not None:
        breaks[1:] |= blocks[1:] != blocks[:-1] + 1
    for column in columns:
        breaks[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(breaks)
    return first, np.diff(first, append=size)
