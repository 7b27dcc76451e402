"""Prefetching: blocks of a prefix come from the tiers' caches to the device's before anybody holds them.

The device block is nobody's while the copy is under way, and can be found by nobody: it gets its hash when the content is
there and right. What fails leaves a free block.
"""

from collections.abc import Set
from dataclasses import dataclass
from functools import partial

from engine.memory.places import complete_places
from engine.memory.prefix import NO_HASH, extend_hashes
from engine.requests.request import Request
from engine.tiers.books import CACHED, TierBooks
from engine.tiers.mover import Address, CopyResult
from engine.tiers.transfers import DEVICE, Transfers


@dataclass(slots=True, eq=False)
class Prefetch:
    """The block of place ``place`` in the table that request ``num`` would get. ``hash``: what it can be found by when
    it has come (`NO_HASH`: nobody wants it any more); ``parent``: the hash of what it continues."""

    num: int
    place: int
    hash: int
    parent: int


class Prefetches:
    def __init__(self, transfers: Transfers) -> None:
        self.under_way: set[Prefetch] = set()
        self._transfers = transfers
        self._pool = transfers.pool
        self._head = -1
        self._asked: set[int] = set()
        """Hashes that were asked for while the present head waits: what was given up again since is not brought twice."""

    def coming_for(self, request: Request) -> int:
        """How many blocks of its prefix are on their way, for whomever they were asked for."""
        if not self.under_way:
            return 0
        pool, last = self._pool, max(each.place for each in self.under_way)
        end = min(complete_places(pool, len(request.token_ids) - 1), last - last % pool.groups + pool.groups)
        hashes = extend_hashes(request, end, pool.block_size, pool.groups)
        return sum(each.place < end and hashes[each.place] == each.hash for each in self.under_way)

    def is_coming(self, hash_: int) -> bool:
        return any(each.hash == hash_ for each in self.under_way)

    def was_asked(self, request: Request, hash_: int) -> bool:
        """This content was brought, or was to be, since ``request`` is the one that waits."""
        return request.num == self._head and hash_ in self._asked

    def bring(self, request: Request, place: int, block: int, books: TierBooks, slot: int, now: float) -> None:
        """Copy a slot that was found into ``block``, which `BlockPool.expect` gave."""
        groups, hashes = self._pool.groups, request.hashes
        if request.num != self._head:
            self._head, self._asked = request.num, set()
        self._asked.add(hashes[place])
        parent = hashes[place - groups] if place >= groups else NO_HASH
        prefetch = Prefetch(request.num, place, hashes[place], parent)
        self.under_way.add(prefetch)
        source = Address(books.tier, slot, books.start_read(slot, now))
        ended = partial(self._arrived, prefetch)
        self._transfers.begin(source, Address(DEVICE, block), ended, urgent=True)

    def used(self, block: int) -> None:
        """A request that is admitted hits ``block``: if it was brought ahead, that was worth it."""
        if tier := int(self._pool.prefetched[block]):
            self._pool.prefetched[block] = DEVICE
            self._transfers.levels[tier].prefetch_used_blocks += 1

    def forget_hashes(self, hashes: Set[int] | None = None) -> None:
        """What is on its way, of ``hashes`` where they are given, can be found by nobody when it has come."""
        for prefetch in self.under_way:
            if hashes is None or prefetch.hash in hashes:
                prefetch.hash = NO_HASH

    def _arrived(self, prefetch: Prefetch, result: CopyResult, now: float) -> None:
        self.under_way.discard(prefetch)
        source, block = result.copy.source, result.copy.target.slot
        books = self._transfers.books[source.tier - 1]
        books.end_read(source.slot, now)
        if result.error is None and prefetch.hash != NO_HASH:
            self._pool.arrive(block, prefetch.hash, prefetch.parent, source.tier)
            self._transfers.levels[source.tier].prefetched_blocks += 1
            return
        self._pool.unhold(block)
        if result.error is None:
            return
        if books.generation[source.slot] == source.generation and books.state[source.slot] == CACHED:
            books.give_up(source.slot, now)
        self._transfers.tell(
            "load_failed",
            books.name,
            f"1 block did not come ahead of its request and is computed when it is needed: {result.error}",
            severity="warn",
            num=prefetch.num,
            blocks=1,
        )
