"""The tiers below the device, as the scheduler knows them: storing, loading and swapping blocks, copy by copy.

Two uses that never mix: *cached* slots extend the prefix cache (any request may find them by their hash, and they are
given up for newer content), *held* slots keep the state of one swapped request until it comes back or ends.

A copy under way holds its device block (`BlockPool.hold`): whatever becomes of the requests meanwhile, the block is not
taken for anything else before the copy has ended. A slot is readable only when the copy into it is complete, and is not
taken for other content while it is read. What fails is reported and computed again; nothing else depends on it.

No clock and no bytes here: times come from the caller, bytes are the mover's.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.pool import BlockPool
from engine.request import Request
from engine.tiers.books import CACHED, FREE, TierBooks
from engine.tiers.levels import Level, Traffic
from engine.tiers.mover import Copy, CopyResult, CopyService, Place
from engine.tiers.swapped import Loaded, Loading, Swapped, TierNews
from engine.words import counted

DEVICE = 0
NEWS_KEPT = 256
SPARE_SLOTS = 32
"""Free slots, at most, that a tier tries to keep by moving its oldest blocks down."""

REST_AFTER_FAILURE = 0.5
"""Seconds without storing after a store failed: what cannot be written now is not tried again at every turn."""

STORE_FAILURES_EVERY = 1.0
"""Seconds between two reports of blocks that could not be stored; those in between are summed."""


@dataclass(frozen=True, slots=True)
class _Flight:
    """A copy under way and whom to tell. ``place``: place in ``swapped`` or in the table of ``loading``'s request."""

    copy: Copy
    swapped: Swapped | None = None
    loading: Loading | None = None
    place: int = 0
    ahead: bool = False
    """A store ahead of eviction: the device block becomes free when its content is safe below."""


class Tiers:
    """``books``: the tiers below the device from the fastest to the slowest, at least one. Not thread-safe."""

    def __init__(self, pool: BlockPool, books: Sequence[TierBooks], mover: CopyService) -> None:
        self.pool = pool
        self.books = list(books)
        self.mover = mover
        self.levels = [Level() for _ in range(len(books) + 1)]
        """By tier number, the device first."""
        self.swapped: dict[int, Swapped] = {}
        """By num of the request, those whose state is in a tier; one that is loading stays until that has ended."""
        self.loading: dict[int, Loading] = {}
        """By num of the request that waits for them."""
        self.traffic: dict[tuple[int, int], Traffic] = {}
        self.news: deque[TierNews] = deque(maxlen=NEWS_KEPT)
        self.loaded_tokens = 0
        """Prompt tokens that first admissions got from lower tiers' caches, ever."""
        self.offloaded_bytes = 0
        """Copied from the device to lower tiers, ever."""
        self.promoted_blocks = 0
        """Copied from lower tiers to the device, ever."""
        self.ahead = 0
        """Blocks on their way out ahead of their eviction."""
        self._outbox: list[Copy] = []
        self._flights: dict[int, _Flight] = {}
        self._loads: set[Loading] = set()
        self._next = 0
        self._resting_until = float("-inf")
        self._unstored = 0
        self._unstored_told = float("-inf")

    # Gauges

    @property
    def pending(self) -> int:
        """Copies under way."""
        return len(self._flights)

    @property
    def flights(self) -> list[Copy]:
        """The copies under way."""
        return [flight.copy for flight in self._flights.values()]

    def name(self, tier: int) -> str:
        return "device" if tier == DEVICE else self.books[tier - 1].name

    def named(self, name: str) -> TierBooks | None:
        """The books of the tier of that name; None where there is none."""
        return next((books for books in self.books if books.name == name), None)

    @property
    def room(self) -> int:
        """Copies that can begin now."""
        return self.mover.room - len(self._outbox)

    def flush(self) -> None:
        """Hand what was begun to the mover. Not while copies within the device are planned and not done: what they
        write is to be copied out, and what they read may be taken for blocks that come in."""
        for copy in self._outbox:
            self.mover.submit(copy)
        self._outbox.clear()

    # Swapping

    def swap_room(self, request: Request, books: TierBooks) -> bool:
        """Whether the state of ``request`` can be copied out to that tier now."""
        blocks = self.pool.blocks_for(request.computed)
        return blocks <= books.available and blocks <= self.room

    def swap_out(self, request: Request, books: TierBooks, now: float) -> None:
        """Copy all computed KV of a running request out. Its table may be released at once: the copies hold its blocks.

        The caller made sure of `swap_room` and of at least one computed token.
        """
        blocks = request.block_table[: self.pool.blocks_for(request.computed)]
        hashes = [self.pool.hash_of(block) for block in blocks]
        slots = [books.take(now, fill=int(self.pool.fill[block]), owner=request.num) for block in blocks]
        state = Swapped(request.num, books, slots, request.computed, hashes, now, leaving=len(blocks))
        self.swapped[request.num] = state
        for place, (block, slot) in enumerate(zip(blocks, slots, strict=True)):
            self.pool.hold(block)
            target = Place(books.tier, slot, int(books.generation[slot]))
            self._submit(Place(DEVICE, block), target, swapped=state, place=place)

    def refuse_swap(self, request: Request, tier: str) -> None:
        """The tier (by name) had no room for it; its KV is given up."""
        blocks = self.pool.blocks_for(request.computed)
        books = self.named(tier)
        if books is not None:
            self.levels[books.tier].drops += blocks
        size = f"has {books.available} of {counted(books.slots, 'block')} to give" if books else "is not there"
        self._tell(
            "tier_drop",
            tier,
            f"{request.id} cannot be swapped out: it holds {counted(blocks, 'block')}, the {tier} tier {size}; it is recomputed",
            severity="warn",
            num=request.num,
            blocks=blocks,
        )

    def leaving(self, num: int) -> Swapped | None:
        """The state of a request that is still on its way out; None where there is none or it is out."""
        state = self.swapped.get(num)
        return state if state is not None and state.leaving else None

    def drop(self, num: int, now: float) -> None:
        """The request has ended or needs its state no more: its slots become free, and nobody waits for its loads."""
        self.cancel_load(num)
        state = self.swapped.pop(num, None)
        if state is not None:
            state.dead = True
            for slot in state.slots:
                state.books.give_up(slot, now)

    # Loading

    def find(self, first: int, hashes: Sequence[int]) -> list[tuple[TierBooks, int]]:
        """Where blocks ``first …`` of a sequence with these hashes lie in the tiers, up to the first that lies nowhere."""
        found: list[tuple[TierBooks, int]] = []
        for hash_ in hashes[first:]:
            place = self._lookup(hash_)
            if place is None:
                break
            found.append(place)
        return found

    def count_lookup(self, wanted: int, found: Sequence[tuple[TierBooks, int]]) -> None:
        """Book a first admission's look-up of ``wanted`` places that the device does not hold."""
        size, missing = self.pool.block_size / self.pool.groups, wanted
        for books in self.books:
            hits = sum(b is books for b, _ in found)
            missing -= hits
            self.levels[books.tier].hit_tokens += int(hits * size)
            self.levels[books.tier].miss_tokens += int(missing * size)

    def load(self, request: Request, first: int, places: Sequence[tuple[TierBooks, int]], now: float) -> None:
        """Bring blocks that were found into places ``first …`` of the request's table, which it took for them."""
        hashes = request.hashes[first : first + len(places)]
        tokens = self.pool.tokens_in(first + len(places))
        books, slots = [b for b, _ in places], [s for _, s in places]
        self._load(Loading(request.num, books, slots, first, tokens, hashes, now), request)

    def load_swapped(self, request: Request, first: int, now: float) -> None:
        """Bring the state of a swapped request back into places ``first …`` of its table, which it took for them."""
        state = self.swapped[request.num]
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

    def swapped_blocks(self, num: int, first: int) -> int:
        """Blocks of a swapped request's state from place ``first`` on; 0 where it has none."""
        state = self.swapped.get(num)
        return 0 if state is None else max(0, len(state.slots) - first)

    def cancel_load(self, num: int) -> None:
        """The request gave up the blocks it was waiting for. Its state, where this was its own, stays in its tier."""
        loading = self.loading.pop(num, None)
        if loading is not None:
            loading.cancelled = True

    # Storing

    def store_room(self, now: float) -> bool:
        """Whether a block can be stored now: not right after a store that failed, either."""
        return self.room >= 2 and self.books[0].available > 0 and now >= self._resting_until

    def store(self, block: int, hash_: int, now: float) -> None:
        """Copy a complete device block, which somebody holds, to the fastest tier, to be found there by its hash.
        Nothing happens when it is in a tier already; it is counted as dropped where there is no room."""
        if self.knows(hash_):
            return
        if not self.store_room(now):
            self.levels[self.books[0].tier].drops += not self.books[0].available
            return
        self.pool.hold(block)
        self._store(block, hash_, now, ahead=False)

    def store_ahead(self, block: int, hash_: int, now: float) -> None:
        """Copy a block out that `BlockPool.hold_next_evicted` gave; it is free when its content is safe. The caller
        made sure of `store_room` and that no tier `knows` it."""
        self.ahead += 1
        self._store(block, hash_, now, ahead=True)

    def _store(self, block: int, hash_: int, now: float, *, ahead: bool) -> None:
        books = self.books[0]
        self._make_way(books, now)
        slot = books.take(now, fill=self.pool.block_size, hash_=hash_)
        self._submit(Place(DEVICE, block), Place(books.tier, slot, int(books.generation[slot])), ahead=ahead)

    def knows(self, hash_: int) -> bool:
        return any(books.knows(hash_) for books in self.books)

    def reset(self) -> int:
        """Forget all cached content, in slots and on its way. States of swapped requests stay, but match nobody new."""
        for state in self.swapped.values():
            state.forget_hashes()
        for loading in self._loads:
            loading.forget_hashes()
        return sum(books.reset() for books in self.books)

    # Completions

    def poll(self, now: float) -> list[Loaded]:
        """Book what ended. Returns the loads that are complete, for the scheduler to go on with."""
        loaded: list[Loaded] = []
        for result in self.mover.poll():
            flight = self._flights.pop(result.copy.num)
            self._book(result)
            if flight.loading is not None:
                loaded += self._arrived(flight, result, flight.loading, now)
            elif flight.swapped is not None:
                self._left(flight, result, flight.swapped, now)
            else:
                self._stored(flight, result, now)
        return loaded

    def wait(self, seconds: float) -> bool:
        """Until a copy has ended: only where nothing can run before that. False when none did in that time."""
        return self.mover.wait(seconds)

    def stalled(self, ms: float) -> None:
        """Nothing could run for that long because of copies under way: booked on the tiers they go to or come from."""
        lower = {max(copy.source.tier, copy.target.tier) for copy in self.flights}
        pairs = {(copy.source.tier, copy.target.tier) for copy in self.flights}
        for tier in lower:
            self.levels[tier].stalls += 1
            self.levels[tier].stall_ms += ms
        for pair in pairs:
            self.traffic.setdefault(pair, Traffic()).stalls += 1

    def close(self) -> None:
        self.mover.close()

    # How it is done

    def _lookup(self, hash_: int) -> tuple[TierBooks, int] | None:
        for books in self.books:
            if (slot := books.lookup(hash_)) is not None:
                return books, slot
        return None

    def _submit(
        self,
        source: Place,
        target: Place,
        *,
        swapped: Swapped | None = None,
        loading: Loading | None = None,
        place: int = 0,
        ahead: bool = False,
    ) -> None:
        copy = Copy(self._next, source, target, urgent=swapped is not None or loading is not None)
        self._next += 1
        self._flights[copy.num] = _Flight(copy, swapped, loading, place, ahead)
        self._outbox.append(copy)

    def _load(self, loading: Loading, request: Request) -> None:
        loading.arriving = len(loading.slots)
        self.loading[loading.num] = loading
        self._loads.add(loading)
        for i, (books, slot) in enumerate(zip(loading.books, loading.slots, strict=True)):
            block = request.block_table[loading.first + i]
            self.pool.hold(block, incoming=True)
            source = Place(books.tier, slot, books.start_read(slot, loading.since))
            self._submit(source, Place(DEVICE, block), loading=loading, place=loading.first + i)

    def _make_way(self, books: TierBooks, now: float) -> None:
        """Before a full tier gives up its oldest cached block, move that down a tier, where there is one."""
        below = self.books.index(books) + 1
        if (
            below >= len(self.books)
            or books.counts[FREE] > min(books.slots // 8, SPARE_SLOTS)
            or not self.books[below].available
        ):
            return
        lower = self.books[below]
        for slot in books.oldest_cached(2):
            hash_ = int(books.hash[slot])
            if lower.knows(hash_) or self.room < 2 or books.available < 2:
                continue
            source = Place(books.tier, slot, books.start_read(slot, now))
            target = lower.take(now, fill=self.pool.block_size, hash_=hash_)
            self._submit(source, Place(lower.tier, target, int(lower.generation[target])))
            return

    def _book(self, result: CopyResult) -> None:
        source, target = result.copy.source.tier, result.copy.target.tier
        if result.error is not None:
            self.levels[max(source, target)].failures += 1
            return
        self.levels[source].went_out(result.bytes, result.ms)
        self.levels[target].came_in(result.bytes, result.ms)
        traffic = self.traffic.setdefault((source, target), Traffic())
        traffic.blocks += 1
        traffic.bytes += result.bytes
        traffic.ms += result.ms
        self.offloaded_bytes += result.bytes if source == DEVICE else 0
        self.promoted_blocks += target == DEVICE

    def _stored(self, flight: _Flight, result: CopyResult, now: float) -> None:
        source, target = flight.copy.source, flight.copy.target
        ok = result.error is None
        self.books[target.tier - 1].wrote(target.slot, now, ok=ok)
        if source.tier == DEVICE:
            self.pool.unhold(source.slot, forget=ok and flight.ahead)
            self.ahead -= flight.ahead
        else:
            upper = self.books[source.tier - 1]
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
        tier = self.name(max(result.copy.source.tier, result.copy.target.tier))
        what = f"{counted(self._unstored, 'block')} could not be stored: {result.error}"
        self._tell("tier_drop", tier, what, severity="warn", blocks=self._unstored)
        self._unstored, self._unstored_told = 0, now

    def _left(self, flight: _Flight, result: CopyResult, state: Swapped, now: float) -> None:
        self.pool.unhold(flight.copy.source.slot)
        state.leaving -= 1
        if result.error is not None and (state.first_lost is None or flight.place < state.first_lost):
            state.first_lost = flight.place
        state.books.wrote(flight.copy.target.slot, now, ok=True)
        if state.leaving or state.dead:
            return
        tier = state.books.name
        if state.first_lost is None:
            self._tell(
                "swap_out",
                tier,
                "",
                num=state.num,
                blocks=len(state.slots),
                tokens=state.tokens,
                seconds=max(0.0, now - state.since),
            )
            return
        self._cut(state, state.first_lost, now)
        self._tell(
            "load_failed",
            tier,
            f"only {counted(len(state.slots), 'block')} could be copied out, the rest is computed again: {result.error}"
            if result.error
            else f"only {counted(len(state.slots), 'block')} could be copied out; the rest is computed again",
            severity="warn",
            num=state.num,
            tokens=state.tokens,
        )

    def _cut(self, state: Swapped, blocks: int, now: float) -> None:
        """Keep the first ``blocks`` blocks of a swapped state, as far as all groups' are among them; with none it is
        recomputed from the start."""
        blocks -= blocks % self.pool.groups
        for slot in state.slots[blocks:]:
            state.books.give_up(slot, now)
        del state.slots[blocks:], state.hashes[blocks:]
        state.tokens = min(state.tokens, self.pool.tokens_in(blocks))
        if not blocks:
            del self.swapped[state.num]

    def _arrived(self, flight: _Flight, result: CopyResult, loading: Loading, now: float) -> list[Loaded]:
        books = self.books[flight.copy.source.tier - 1]
        slot = flight.copy.source.slot
        books.end_read(slot, now)
        self.pool.unhold(flight.copy.target.slot)
        loading.arriving -= 1
        if result.error is not None:
            loading.errors.append(result.error)
            if loading.first_lost is None or flight.place < loading.first_lost:
                loading.first_lost = flight.place
            # What cannot be read is worth nothing: nobody shall find it again.
            current = books.generation[slot] == flight.copy.source.generation
            if loading.swapped is None and current and books.state[slot] == CACHED:
                books.give_up(slot, now)
        if loading.arriving:
            return []
        self._loads.discard(loading)
        if loading.cancelled:
            return []
        del self.loading[loading.num]
        return [self._complete(loading, now)]

    def _complete(self, loading: Loading, now: float) -> Loaded:
        asked = len(loading.slots)
        came = asked if loading.first_lost is None else loading.first_lost - loading.first
        came -= came % self.pool.groups
        tokens = loading.tokens if came == asked else self.pool.tokens_in(loading.first + came)
        tier, state = loading.books[0].name, loading.swapped
        since = loading.since if state is None else state.since
        if loading.errors:
            self._tell(
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
                self._tell(
                    "swap_in",
                    tier,
                    "",
                    num=loading.num,
                    blocks=came,
                    tokens=tokens - self.pool.tokens_in(loading.first),
                    seconds=max(0.0, now - since),
                )
            self.drop(loading.num, now)
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

    def _tell(
        self,
        kind: str,
        tier: str,
        detail: str,
        *,
        severity: str = "info",
        num: int | None = None,
        blocks: int | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.news.append(TierNews(kind, tier, detail, severity, num, blocks, tokens, seconds))
