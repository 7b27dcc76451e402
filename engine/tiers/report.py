"""The tiers in the protocol's terms: their slots as blocks behind the device's, their levels, what moved."""

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from engine.memory.column_copy import ColumnCopy
from engine.memory.prefix import NO_HASH
from engine.tiers.books import CACHED, FREE, HELD, NOBODY, TRANSFER, TierBooks
from engine.tiers.tiers import Tiers
from kvtop.protocol import BlockAge, BlockHash, BlockRun, TierLevel, TierTraffic


class Moved(NamedTuple):
    """What was copied between tiers since the start, as the protocol's counters of these names have it."""

    host_offload_bytes: int
    host_promotions: int
    disk_offload_bytes: int
    disk_promotions: int


_NOTHING = Moved(0, 0, 0, 0)


def moved_in_all(tiers: Tiers | None) -> Moved:
    """By the tiers' names; 0 where there are no such tiers."""
    if tiers is None:
        return _NOTHING
    moved = {(tiers.name(a), tiers.name(b)): sums for (a, b), sums in tiers.moved.items()}
    return Moved(
        sum(sums.bytes for pair, sums in moved.items() if pair == ("device", "host")),
        sum(sums.blocks for pair, sums in moved.items() if pair == ("host", "device")),
        sum(sums.bytes for (_, to), sums in moved.items() if to == "disk"),
        sum(sums.blocks for pair, sums in moved.items() if pair == ("disk", "device")),
    )


class TierReport:
    """``device_hit_tokens`` and the like of the device tier are the pool's and come from the caller."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._bases: list[int] = []
        base = tiers.pool.total
        for books in tiers.books:
            self._bases.append(base)
            base += books.slots
        self._sent: list[TierLevel] = []
        self._prepared: dict[int, ColumnCopy] = {}
        self._copies: dict[int, ColumnCopy] = {}

    def take_changes(self) -> tuple[list[BlockRun], list[BlockHash]]:
        """Runs and hashes of the slots that changed since the last call, as blocks behind the device's."""
        runs: list[BlockRun] = []
        hashes: list[BlockHash] = []
        for base, books in zip(self._bases, self._tiers.books, strict=True):
            if not books.dirty:
                continue
            slots = np.array(sorted(books.dirty), dtype=np.intp)
            books.dirty.clear()
            if self._copies:
                self._copies[books.tier].patch(slots)
            runs += self._runs(books, base, slots)
            hashes += [(base + slot, _hex(int(books.hash[slot]))) for slot in slots.tolist()]
        return runs, hashes

    def prepare_copies(self) -> dict[int, ColumnCopy]:
        """Memory for `start_copies`, the same each time. Before the engine serves."""
        if not self._prepared:
            self._prepared = {
                books.tier: ColumnCopy((books.state, books.owner, books.fill, books.hash, books.last_use))
                for books in self._tiers.books
            }
        return self._prepared

    def start_copies(self) -> list[ColumnCopy]:
        """A copy of each tier's books, which learns of what changes when the frames do. Those before it must not be read
        any more."""
        self._copies = self.prepare_copies()
        for copy in self._copies.values():
            copy.start()
        return list(self._copies.values())

    def drop_copies(self) -> None:
        """They are not wanted any more."""
        self._copies = {}

    def copied(self) -> list[tuple[int, list[NDArray[np.generic]], NDArray[np.uint64], NDArray[np.float64]]]:
        """Of each tier the number of its first block, the columns of a run, hashes and times of the last use."""
        parts = []
        for base, books in zip(self._bases, self._tiers.books, strict=True):
            state, owner, fill, hashes, last_use = self._copies[books.tier].columns
            full = (state == CACHED) | (state == HELD)
            same = np.ones(books.slots, np.uint8)
            run = [state, owner, owner != NOBODY, np.where(full, fill, 0), same * books.tier, same * 0]
            parts.append((base, run, hashes, last_use))
        return parts  # type: ignore[return-value]

    def forget(self) -> None:
        """Nobody is to be told of what changed up to now."""
        for books in self._tiers.books:
            books.dirty.clear()
        self._tiers.traffic.clear()
        self._sent = []

    def all_runs(self) -> list[BlockRun]:
        return [
            run
            for base, books in zip(self._bases, self._tiers.books, strict=True)
            for run in self._runs(books, base, np.arange(books.slots))
        ]

    def all_hashes(self) -> list[BlockHash]:
        """Every slot that has a hash, ascending."""
        return [
            (base + slot, _hex(int(books.hash[slot])))
            for base, books in zip(self._bases, self._tiers.books, strict=True)
            for slot in np.flatnonzero(books.hash != NO_HASH).tolist()
        ]

    def all_ages(self, now: float) -> list[BlockAge]:
        """Seconds since the last use of every slot that was ever used."""
        ages: list[BlockAge] = []
        for base, books in zip(self._bases, self._tiers.books, strict=True):
            used = np.flatnonzero(~np.isnan(books.last_use))
            seconds = np.round(np.maximum(now - books.last_use[used], 0.0), 3)
            ages += [(base + slot, 1, age) for slot, age in zip(used.tolist(), seconds.tolist(), strict=True)]
        return ages

    def changed_levels(self, device_hits: int, device_misses: int) -> list[TierLevel]:
        """All tiers' levels when one of them changed since the last call, else none."""
        levels = self.levels(device_hits, device_misses)
        if levels == self._sent:
            return []
        self._sent = levels
        return levels

    def levels(self, device_hits: int, device_misses: int) -> list[TierLevel]:
        """All tiers, the device first. ``device_hits``, ``device_misses``: prompt tokens at first admissions."""
        tiers, pool, level = self._tiers, self._tiers.pool, self._tiers.levels[0]
        device = TierLevel.model_construct(
            tier="device",
            blocks_total=pool.total,
            blocks_free=pool.free_blocks,
            blocks_cached=pool.cached_blocks,
            blocks_held=0,
            blocks_transfer=pool.transfer_blocks,
            bytes_in=level.bytes_in,
            bytes_out=level.bytes_out,
            ms_per_block_in=level.ms_in,
            ms_per_block_out=level.ms_out,
            hit_tokens=device_hits,
            miss_tokens=device_misses,
            stalls=0,
            stall_ms=0.0,
            drops=0,
            failures=level.failures,
        )
        return [device, *(self._lower(books) for books in tiers.books)]

    def _lower(self, books: TierBooks) -> TierLevel:
        level = self._tiers.levels[books.tier]
        return TierLevel.model_construct(
            tier=books.name,
            blocks_total=books.slots,
            blocks_free=books.counts[FREE],
            blocks_cached=books.counts[CACHED],
            blocks_held=books.counts[HELD],
            blocks_transfer=books.counts[TRANSFER],
            bytes_in=level.bytes_in,
            bytes_out=level.bytes_out,
            ms_per_block_in=level.ms_in,
            ms_per_block_out=level.ms_out,
            hit_tokens=level.hit_tokens,
            miss_tokens=level.miss_tokens,
            stalls=level.stalls,
            stall_ms=level.stall_ms,
            drops=level.drops + books.dropped,
            failures=level.failures,
            prefetched_blocks=level.prefetched_blocks,
            prefetch_used_blocks=level.prefetch_used_blocks,
        )

    def take_traffic(self) -> list[TierTraffic]:
        """What moved between tiers since the last call."""
        moved = [
            TierTraffic.model_construct(
                source=self._tiers.name(source),
                target=self._tiers.name(target),
                blocks=traffic.blocks,
                bytes=traffic.bytes,
                ms=traffic.ms,
                stalls=traffic.stalls,
            )
            for (source, target), traffic in self._tiers.traffic.items()
        ]
        self._tiers.traffic.clear()
        return moved

    @staticmethod
    def _runs(books: TierBooks, base: int, slots: NDArray[np.intp]) -> list[BlockRun]:
        full = (books.state[slots] == CACHED) | (books.state[slots] == HELD)
        columns = np.stack(
            [
                books.state[slots].astype(np.int64),
                books.owner[slots].astype(np.int64),
                (books.owner[slots] != NOBODY).astype(np.int64),
                np.where(full, books.fill[slots], 0).astype(np.int64),
            ]
        )
        breaks = np.ones(len(slots), np.bool_)
        breaks[1:] = (np.diff(slots) != 1) | (np.diff(columns, axis=1) != 0).any(axis=0)
        first = np.flatnonzero(breaks)
        counts = np.diff(first, append=len(slots))
        starts = (base + slots[first]).tolist()
        rows = zip(starts, counts.tolist(), *columns[:, first].tolist(), strict=True)
        return cast("list[BlockRun]", [(*row, books.tier, 0) for row in rows])


def _hex(hash_: int) -> str | None:
    return None if hash_ == NO_HASH else f"{hash_:016x}"
