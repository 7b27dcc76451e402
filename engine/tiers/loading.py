"""Loading: blocks come back to the device for a request that was admitted and waits for them.

They are its own swapped state, or more of its prefix from the tiers' caches.
"""

from collections.abc import Sequence, Set
from functools import partial

from engine.requests.request import Request
from engine.tiers.books import CACHED, TierBooks
from engine.tiers.mover import Address, CopyResult
from engine.tiers.request_kv import Loaded, Loading
from engine.tiers.swap import Swaps
from engine.tiers.transfers import DEVICE, Transfers
from engine.words import counted


class Loads:
    """``loading``: by num of the request that waits for them."""

    def __init__(self, transfers: Transfers, swaps: Swaps) -> None:
        self.loading: dict[int, Loading] = {}
        self._transfers = transfers
        self._swaps = swaps
        self._pool = transfers.pool
        self._loads: set[Loading] = set()
        """Those cancelled included, until their copies have ended."""
        self._complete: list[Loaded] = []

    def find(self, first: int, hashes: Sequence[int]) -> list[tuple[TierBooks, int]]:
        """Where blocks ``first …`` of a sequence with these hashes lie in the tiers, up to the first that lies nowhere."""
        found: list[tuple[TierBooks, int]] = []
        for hash_ in hashes[first:]:
            place = self.lookup(hash_)
            if place is None:
                break
            found.append(place)
        return found

    def count_lookup(self, wanted: int, found: Sequence[tuple[TierBooks, int]]) -> None:
        """Book a first admission's look-up of ``wanted`` places that the device does not hold."""
        size, missing = self._pool.block_size / self._pool.groups, wanted
        for books in self._transfers.books:
            hits = sum(b is books for b, _ in found)
            missing -= hits
            self._transfers.levels[books.tier].hit_tokens += int(hits * size)
            self._transfers.levels[books.tier].miss_tokens += int(missing * size)

    def load(self, request: Request, first: int, places: Sequence[tuple[TierBooks, int]], now: float) -> None:
        """Bring blocks that were found into places ``first …`` of the request's table, which it took for them."""
        hashes = request.hashes[first : first + len(places)]
        tokens = self._pool.tokens_in(first + len(places))
        books, slots = [b for b, _ in places], [s for _, s in places]
        self._load(Loading(request.num, books, slots, first, tokens, hashes, now), request)

    def load_swapped(self, request: Request, first: int, now: float) -> None:
        """Bring the state of a swapped request back into places ``first …`` of its table, which it took for them."""
        state = self._swaps.swapped[request.num]
        slots = state.slots[first:]
        loading = Loading(
            request.num,
            [state.books] * len(slots),
            slots,
            first,
            state.tokens,
            state.hashes[first:],
            now,
            swapped=state,
        )
        self._load(loading, request)

    def cancel(self, num: int) -> None:
        """The request gave up the blocks it was waiting for. Its state, where this was its own, stays in its tier."""
        loading = self.loading.pop(num, None)
        if loading is not None:
            loading.cancelled = True

    def take_complete(self) -> list[Loaded]:
        """The loads that have ended since the last call, but for those cancelled."""
        complete, self._complete = self._complete, []
        return complete

    def forget_hashes(self, hashes: Set[int] | None = None) -> None:
        """What is on its way, with any of ``hashes`` where they are given, can be found by nobody when it has come."""
        for loading in self._loads:
            if hashes is None or not hashes.isdisjoint(loading.hashes):
                loading.forget_hashes()

    def is_coming(self, hash_: int) -> bool:
        """A request waits for this content."""
        return any(hash_ in loading.hashes for loading in self._loads)

    def lookup(self, hash_: int) -> tuple[TierBooks, int] | None:
        """Where in the tiers this content can be read; None where it lies nowhere."""
        for books in self._transfers.books:
            if (slot := books.lookup(hash_)) is not None:
                return books, slot
        return None

    def _load(self, loading: Loading, request: Request) -> None:
        loading.arriving = len(loading.slots)
        self.loading[loading.num] = loading
        self._loads.add(loading)
        for i, (books, slot) in enumerate(zip(loading.books, loading.slots, strict=True)):
            block = request.block_table[loading.first + i]
            self._pool.hold(block, incoming=True)
            source = Address(books.tier, slot, books.start_read(slot, loading.since))
            ended = partial(self._arrived, loading, loading.first + i)
            self._transfers.begin(source, Address(DEVICE, block), ended, urgent=True)

    def _arrived(self, loading: Loading, place: int, result: CopyResult, now: float) -> None:
        books = self._transfers.books[result.copy.source.tier - 1]
        slot = result.copy.source.slot
        books.end_read(slot, now)
        self._pool.unhold(result.copy.target.slot)
        loading.arriving -= 1
        if result.error is not None:
            loading.errors.append(result.error)
            if loading.first_lost is None or place < loading.first_lost:
                loading.first_lost = place
            # What cannot be read is worth nothing: nobody shall find it again.
            current = books.generation[slot] == result.copy.source.generation
            if loading.swapped is None and current and books.state[slot] == CACHED:
                books.give_up(slot, now)
        if loading.arriving:
            return
        self._loads.discard(loading)
        if not loading.cancelled:
            del self.loading[loading.num]
            self._complete.append(self.completed(loading, now))

    def completed(self, loading: Loading, now: float) -> Loaded:
        """What came of it, told as far as that is news."""
        asked = len(loading.slots)
        came = asked if loading.first_lost is None else loading.first_lost - loading.first
        came -= came % self._pool.groups
        tokens = loading.tokens if came == asked else self._pool.tokens_in(loading.first + came)
        tier, state = loading.books[0].name, loading.swapped
        since = loading.since if state is None else state.since
        if loading.errors:
            self._transfers.tell(
                "load_failed",
                tier,
                f"{counted(asked - came, 'block')} did not come back and are computed again: {loading.errors[0]}",
                severity="warn",
                num=loading.num,
                blocks=asked - came,
                tokens=loading.tokens - tokens,
            )
        if state is not None:
            if came:
                self._transfers.tell(
                    "swap_in",
                    tier,
                    "",
                    num=loading.num,
                    blocks=came,
                    tokens=tokens - self._pool.tokens_in(loading.first),
                    seconds=max(0.0, now - since),
                )
            self._swaps.drop(loading.num, now)
        return Loaded(
            loading.num,
            loading.first,
            came,
            tokens,
            loading.hashes[:came],
            asked - came,
            state is not None,
            tier,
            max(0.0, now - since),
        )
