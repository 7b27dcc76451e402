"""The tiers below the device, as the scheduler knows them: what is swapped, loaded, brought ahead, stored.

Two uses that never mix: *cached* slots extend the prefix cache (any request may find them by their hash, and they are
given up for newer content), *held* slots keep the state of one swapped request until it comes back or ends.
"""

from collections.abc import Sequence, Set

from engine.memory.pool import BlockPool
from engine.tiers.books import TierBooks
from engine.tiers.fence import Fences, nothing_queued
from engine.tiers.loading import Loads
from engine.tiers.mover import CopyService
from engine.tiers.offload import Offloads
from engine.tiers.prefetch import Prefetches
from engine.tiers.request_kv import Loaded
from engine.tiers.swap import Swaps
from engine.tiers.transfers import Transfers


class Tiers(Transfers):
    """The copies under way, and those who begin them: ``swaps``, ``loads``, ``prefetches`` and
    ``offloads``."""

    def __init__(
        self, pool: BlockPool, books: Sequence[TierBooks], mover: CopyService, fences: Fences = nothing_queued
    ) -> None:
        super().__init__(pool, books, mover, fences)
        self.swaps = Swaps(self)
        self.loads = Loads(self, self.swaps)
        self.prefetches = Prefetches(self)
        self.offloads = Offloads(self)
        self.swapped = self.swaps.swapped
        self.loading = self.loads.loading
        self.loaded_tokens = 0
        """Prompt tokens that first admissions got from lower tiers' caches, ever."""

    def poll(self, now: float) -> list[Loaded]:
        """Book what ended. Returns the loads that are complete, for the scheduler to go on with."""
        self.end_copies(now)
        return self.loads.take_complete()

    def drop(self, num: int, now: float) -> None:
        """The request has ended or needs its state no more: its slots become free, and nobody waits for its loads."""
        self.loads.cancel(num)
        self.swaps.drop(num, now)

    def forget(self, hashes: Set[int]) -> None:
        """Nobody finds this content, in slots and on its way. States of swapped requests that have it match nobody new."""
        for books in self.books:
            books.forget(hashes)
        for state in self.swapped.values():
            if not hashes.isdisjoint(state.hashes):
                state.forget_hashes()
        self.loads.forget_hashes(hashes)
        self.prefetches.forget_hashes(hashes)

    def reset(self) -> int:
        """Forget all cached content, in slots and on its way. States of swapped requests stay, but match nobody new."""
        for state in self.swapped.values():
            state.forget_hashes()
        self.loads.forget_hashes()
        self.prefetches.forget_hashes()
        return sum(books.reset() for books in self.books)
