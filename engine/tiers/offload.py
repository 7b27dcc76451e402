"""Storing: complete blocks of the prefix cache are copied out, to be found in a tier by their hash."""

from functools import partial

from engine.tiers.books import FREE, TierBooks
from engine.tiers.mover import Address, CopyResult
from engine.tiers.transfers import DEVICE, Transfers
from engine.words import counted

SPARE_SLOTS = 32
"""Free slots, at most, that a tier tries to keep by moving its oldest blocks down."""

REST_AFTER_FAILURE = 0.5
"""Seconds without storing after a store failed: what cannot be written now is not tried again at every turn."""

STORE_FAILURES_EVERY = 1.0
"""Seconds between two reports of blocks that could not be stored; those in between are summed."""


class Offloads:
    """``ahead``: blocks on their way out ahead of their eviction."""

    def __init__(self, transfers: Transfers) -> None:
        self.ahead = 0
        self._transfers = transfers
        self._pool = transfers.pool
        self._books = transfers.books
        self._resting_until = float("-inf")
        self._unstored = 0
        self._unstored_told = float("-inf")

    def room(self, now: float) -> bool:
        """Whether a block can be stored now: not right after a store that failed, either."""
        return self._transfers.room >= 2 and self._books[0].available > 0 and now >= self._resting_until

    def store(self, block: int, hash_: int, now: float) -> None:
        """Copy a complete device block, which somebody holds, to the fastest tier, to be found there by its hash.
        Nothing happens when it is in a tier already; it is counted as dropped where there is no room."""
        if self.knows(hash_):
            return
        if not self.room(now):
            self._transfers.levels[self._books[0].tier].drops += not self._books[0].available
            return
        self._pool.hold(block)
        self._store(block, hash_, now, ahead=False)

    def store_ahead(self, block: int, hash_: int, now: float) -> None:
        """Copy a block out that `BlockPool.hold_next_evicted` gave; it is free when its content is safe. The caller
        made sure of `room` and that no tier `knows` it."""
        self.ahead += 1
        self._store(block, hash_, now, ahead=True)

    def knows(self, hash_: int) -> bool:
        return any(books.knows(hash_) for books in self._books)

    def _store(self, block: int, hash_: int, now: float, *, ahead: bool) -> None:
        books = self._books[0]
        self._make_way(books, now)
        slot = books.take(now, fill=self._pool.block_size, hash_=hash_)
        target = Address(books.tier, slot, int(books.generation[slot]))
        self._transfers.begin(Address(DEVICE, block), target, partial(self._stored, ahead=ahead))

    def _make_way(self, books: TierBooks, now: float) -> None:
        """Before a full tier gives up its oldest cached block, move that down a tier, where there is one."""
        below = self._books.index(books) + 1
        if (
            below >= len(self._books)
            or books.counts[FREE] > min(books.slots // 8, SPARE_SLOTS)
            or not self._books[below].available
        ):
            return
        lower = self._books[below]
        for slot in books.oldest_cached(2):
            hash_ = int(books.hash[slot])
            if lower.knows(hash_) or self._transfers.room < 2 or books.available < 2:
                continue
            source = Address(books.tier, slot, books.start_read(slot, now))
            target = lower.take(now, fill=self._pool.block_size, hash_=hash_)
            ended = partial(self._stored, ahead=False)
            self._transfers.begin(source, Address(lower.tier, target, int(lower.generation[target])), ended)
            return

    def _stored(self, result: CopyResult, now: float, *, ahead: bool) -> None:
        source, target = result.copy.source, result.copy.target
        ok = result.error is None
        self._books[target.tier - 1].wrote(target.slot, now, ok=ok)
        if source.tier == DEVICE:
            self._pool.unhold(source.slot, forget=ok and ahead)
            self.ahead -= ahead
        else:
            upper = self._books[source.tier - 1]
            upper.end_read(source.slot, now)
            idle = upper.lookup(int(upper.hash[source.slot])) == source.slot and not upper.readers[source.slot]
            if ok and idle and upper.generation[source.slot] == source.generation:
                upper.give_up(source.slot, now)
        if not ok:
            self._store_failed(result, now)

    def _store_failed(self, result: CopyResult, now: float) -> None:
        self._resting_until = now + REST_AFTER_FAILURE
        self._unstored += 1
        if now - self._unstored_told < STORE_FAILURES_EVERY:
            return
        tier = self._transfers.name(max(result.copy.source.tier, result.copy.target.tier))
        what = f"{counted(self._unstored, 'block')} could not be stored: {result.error}"
        self._transfers.tell("tier_drop", tier, what, severity="warn", blocks=self._unstored)
        self._unstored, self._unstored_told = 0, now
