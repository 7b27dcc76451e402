"""Faults planted into the tiers, to see that the ledger, the pool, the books or the contents give them away."""

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest.mock import patch

from engine.memory.blocks import ACTIVE, FREE, TRANSFER
from engine.memory.pool import BlockPool
from engine.requests.request import Request
from engine.scheduling import tiering
from engine.tiers.books import TierBooks
from engine.tiers.mover import CopyResult
from engine.tiers.offload import Offloads
from engine.tiers.prefetch import Prefetches
from engine.tiers.request_kv import Loaded
from engine.tiers.swap import Swaps
from engine.tiers.tiers import Tiers
from engine.tiers.transfers import DEVICE


@contextmanager
def loaded_before_the_copies_end() -> Iterator[None]:
    """A request goes on with blocks that are still on their way."""
    poll = Tiers.poll

    def hasty(self: Tiers, now: float) -> list[Loaded]:
        done = poll(self, now)
        for loading in list(self.loading.values()):
            del self.loading[loading.num]
            loading.cancelled = True
            done.append(self.loads.completed(loading, now))
        return done

    with patch.object(Tiers, "poll", hasty):
        yield


@contextmanager
def read_back_before_it_is_out() -> Iterator[None]:
    """A swapped request comes back while its state is still being copied out."""
    with patch.object(tiering, "held_back", lambda tiers, head, policies: None):
        yield


@contextmanager
def released_too_early() -> Iterator[None]:
    """Device blocks are taken for something else while they are copied out; all counters play along."""
    hold, rest = BlockPool.hold, BlockPool._rest

    def loose(self: BlockPool, block: int, *, incoming: bool = False) -> None:
        if incoming:
            hold(self, block, incoming=True)

    def unhold(self: BlockPool, block: int, *, forget: bool = False) -> None:
        if self.copies[block]:
            self.copies[block] -= 1
            self.incoming[block] = False
            if self.refs[block]:
                self._enter(block, ACTIVE)
            else:
                self.leaving -= 1
                if forget:
                    self.forget(block)
                rest(self, block)

    with (
        patch.object(BlockPool, "hold", loose),
        patch.object(BlockPool, "unhold", unhold),
        patch("engine.tiers.ledger._device", lambda tiers: []),
    ):
        yield


@contextmanager
def slot_reused_while_it_is_read() -> Iterator[None]:
    """Reading a slot does not keep it from being taken for other content; all counters play along."""

    def careless(self: TierBooks, slot: int, now: float) -> int:
        return int(self.generation[slot])

    with (
        patch.object(TierBooks, "start_read", careless),
        patch.object(TierBooks, "end_read", lambda self, slot, now: None),
        patch("engine.tiers.ledger._copies", lambda tiers, books: []),
    ):
        yield


@contextmanager
def failed_write_taken_for_done() -> Iterator[None]:
    """A copy out that failed counts as complete: the block is lost, and nobody knows."""
    left, stored = Swaps._left, Offloads._stored

    def fine(result: CopyResult) -> CopyResult:
        return replace(result, error=None) if result.copy.source.tier == DEVICE else result

    with (
        patch.object(
            Swaps, "_left", lambda self, state, place, result, now: left(self, state, place, fine(result), now)
        ),
        patch.object(
            Offloads, "_stored", lambda self, result, now, *, ahead: stored(self, fine(result), now, ahead=ahead)
        ),
    ):
        yield


@contextmanager
def slots_of_the_dead() -> Iterator[None]:
    """A request that ends while it is swapped out leaves its slots behind."""
    with patch.object(Tiers, "drop", lambda self, num, now: self.loads.cancel(num)):
        yield


@contextmanager
def found_before_the_copy_ends() -> Iterator[None]:
    """A block that is brought ahead can be found while its content is still on the way."""
    arrive, bring = BlockPool.arrive, Prefetches.bring

    def hasty(
        self: Prefetches, request: Request, place: int, block: int, books: TierBooks, slot: int, now: float
    ) -> None:
        bring(self, request, place, block, books, slot, now)
        pool, groups = self._pool, self._pool.groups
        arrive(pool, block, request.hashes[place], request.hashes[place - groups] if place >= groups else 0, books.tier)

    with (
        patch.object(BlockPool, "arrive", lambda self, block, hash_, parent, tier: None),
        patch.object(BlockPool, "unhold", _unhold_if_held),
        patch("engine.tiers.ledger._device", lambda tiers: []),
        patch.object(Prefetches, "bring", hasty),
    ):
        yield


@contextmanager
def taken_while_it_is_on_its_way() -> Iterator[None]:
    """The block for content that is brought ahead is free for anybody in the meantime; all counters play along."""
    expect, arrive = BlockPool.expect, BlockPool.arrive

    def loose(self: BlockPool, now: float, group: int, keep: Container[int]) -> int | None:
        block = expect(self, now, group, keep)
        if block is not None:
            _unhold_if_held(self, block)
        return block

    def late(self: BlockPool, block: int, hash_: int, parent: int, tier: int) -> None:
        if self.state[block] != FREE:
            return
        self.free_list.remove(block)
        self.copies[block], self.incoming[block] = 1, True
        self.leaving += 1
        self._enter(block, TRANSFER)
        arrive(self, block, hash_, parent, tier)

    with (
        patch.object(BlockPool, "expect", loose),
        patch.object(BlockPool, "arrive", late),
        patch.object(BlockPool, "unhold", _unhold_if_held),
        patch("engine.tiers.ledger._device", lambda tiers: []),
    ):
        yield


_unhold = BlockPool.unhold


def _unhold_if_held(self: BlockPool, block: int, *, forget: bool = False) -> None:
    if self.copies[block]:
        _unhold(self, block, forget=forget)


TIER_FAULTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    fault.__name__: fault
    for fault in (
        loaded_before_the_copies_end,
        read_back_before_it_is_out,
        released_too_early,
        slot_reused_while_it_is_read,
        failed_write_taken_for_done,
        slots_of_the_dead,
        found_before_the_copy_ends,
        taken_while_it_is_on_its_way,
    )
}
