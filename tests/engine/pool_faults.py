"""Faults planted into the pool: blocks lost, found, evicted or moved wrongly.

Each strikes every few calls, counted on the pool it strikes, so that a run can be repeated exactly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from engine.memory.block_changes import BlockChanges
from engine.memory.blocks import Blocks
from engine.memory.copies import PendingCopies
from engine.memory.eviction import Ranked, Segmented
from engine.memory.places import first_needed_place
from engine.memory.pool import BlockPool
from engine.requests.batch import BlockCopy
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling.progress import drop_unseen
from engine.scheduling.scheduler import Scheduler
from tests.engine.driving import BLOCK


def strikes(pool: Blocks, every: int) -> bool:
    """Whether it is the call on ``pool`` in which the fault strikes."""
    calls = getattr(pool, "fault_calls", 0) + 1
    pool.fault_calls = calls  # type: ignore[attr-defined]
    return calls % every == 0


@contextmanager
def leaked_reference() -> Iterator[None]:
    """Now and then a block is dropped from a table without being released."""
    release = BlockPool.release

    def leaky(self: BlockPool, block: int, owner: int, now: float) -> None:
        if not strikes(self, 7):
            release(self, block, owner, now)

    with patch.object(BlockPool, "release", leaky):
        yield


@contextmanager
def double_free() -> Iterator[None]:
    """Releasing a shared block now and then takes away another owner's reference too."""
    release = BlockPool.release

    def doubled(self: BlockPool, block: int, owner: int, now: float) -> None:
        others = self.sharers.get(block, set()) - {owner}
        release(self, block, owner, now)
        if others and strikes(self, 2):
            release(self, block, min(others), now)

    with patch.object(BlockPool, "release", doubled):
        yield


@contextmanager
def aliased_block() -> Iterator[None]:
    """Now and then a request is handed a block that another one is writing, with references counted as they should."""
    take = BlockPool.take

    def aliasing(self: BlockPool, owner: int, now: float, group: int = 0, *, after: int | None = None) -> int:
        for block in range(self.total):
            writable = self.refs_of(block) == 1 and not self.sealed[block] and self.owner[block] != owner
            if writable and strikes(self, 5):
                self.sealed[block] = True
                self.share(block, owner, now)
                self.sealed[block] = False
                return block
        return take(self, owner, now, group, after=after)

    with patch.object(BlockPool, "take", aliasing):
        yield


@contextmanager
def dropped_too_early() -> Iterator[None]:
    """Blocks are given up while the window's first positions still lie in them."""

    def hasty(request: Request, pool: BlockPool, now: float) -> int:
        narrow = tuple(window and max(1, window - BLOCK) for window in pool.windows)
        with patch.object(pool, "windows", narrow):
            return drop_unseen(request, pool, now)

    with patch("engine.scheduling.commit.drop_unseen", hasty):
        yield


@contextmanager
def dropped_without_a_release() -> Iterator[None]:
    """A table forgets the blocks that slid out of the window and keeps its references to them."""

    def forgetful(request: Request, pool: BlockPool, now: float) -> int:
        for group in range(pool.groups):
            for place in range(group, first_needed_place(pool, group, request.computed_tokens), pool.groups):
                request.block_table[place] = NULL_BLOCK
        request.holes = request.block_table.count(NULL_BLOCK)
        return 0

    with patch("engine.scheduling.commit.drop_unseen", forgetful):
        yield


@contextmanager
def stale_hash() -> Iterator[None]:
    """An evicted block can still be found by the content it no longer has."""
    with patch.object(BlockPool, "forget", lambda self, block: None):
        yield


@contextmanager
def missing_dirty_mark() -> Iterator[None]:
    """Now and then a change of a block does not make it into the next frame."""
    mark = BlockChanges.mark

    def forgetful(self: BlockChanges, block: int) -> None:
        if not strikes(self, 5):
            mark(self, block)

    with patch.object(BlockChanges, "mark", forgetful):
        yield


@contextmanager
def stale_order_entry() -> Iterator[None]:
    """Now and then a block that was hit can still be evicted."""
    remove = Ranked.remove

    def forgetful(self: Ranked, block: int) -> None:
        idle = self._idle[block]
        remove(self, block)
        if strikes(self._blocks, 7):
            self._idle[block] = idle
            self._push(block)

    with patch.object(Ranked, "remove", forgetful):
        yield


@contextmanager
def forgotten_pin() -> Iterator[None]:
    """Now and then a pinned block that nobody holds any more is evictable like any other."""
    rest = BlockPool._rest

    def careless(self: BlockPool, block: int) -> None:
        pins = self._pins[block]
        if pins and strikes(self, 2):
            self._pins[block] = 0
        rest(self, block)
        self._pins[block] = pins

    with patch.object(BlockPool, "_rest", careless):
        yield


@contextmanager
def evicted_pin() -> Iterator[None]:
    """A cached block that is pinned can be evicted all the same."""
    pin = BlockPool.pin

    def careless(self: BlockPool, block: int) -> None:
        was_cached = self.is_evictable(block)
        pin(self, block)
        if was_cached and strikes(self, 2):
            self.stamp_idle(block)
            self.evictable.insert(block)

    with patch.object(BlockPool, "pin", careless):
        yield


@contextmanager
def forgotten_table() -> Iterator[None]:
    """A block is moved, and one of the tables that hold it goes on naming the old one."""
    owners_of = BlockPool.owners_of

    def short(self: BlockPool, block: int) -> set[int]:
        owners = owners_of(self, block)
        return set(sorted(owners)[1:]) if owners and strikes(self, 2) else owners

    with patch.object(BlockPool, "owners_of", short):
        yield


@contextmanager
def moved_without_content() -> Iterator[None]:
    """A block is moved in the books, and its content stays behind."""
    add = PendingCopies.add

    def lazy(self: PendingCopies, request: Request | None, copy: BlockCopy, why: str) -> None:
        if request is not None:
            add(self, request, copy, why)

    with patch.object(PendingCopies, "add", lazy):
        yield


@contextmanager
def stale_place_after_a_move() -> Iterator[None]:
    """A cached block is moved, and the order of eviction goes on naming the old one."""
    with (
        patch.object(Ranked, "move", lambda self, source, target: None),
        patch.object(Segmented, "move", lambda self, source, target: None),
    ):
        yield


@contextmanager
def outdated_rank() -> Iterator[None]:
    """A block that became cached again stands where it stood before."""
    enter = Ranked._enter

    def outdated(self: Ranked, block: int) -> None:
        if not self._rank[block] or not strikes(self._blocks, 3):
            enter(self, block)
            return
        self._idle[block] = self._blocks.idle_since[block]
        self._rank[block] -= 1
        self._push(block)

    with patch.object(Ranked, "_enter", outdated):
        yield


@contextmanager
def groups_confused() -> Iterator[None]:
    """The blocks of all KV groups with the same tokens are found by the same hash."""
    with (
        patch("engine.memory.prefix.of_group", lambda hash_, group: hash_),
        patch("engine.memory.partial.of_group", lambda hash_, group: hash_),
    ):
        yield


@contextmanager
def group_left_behind() -> Iterator[None]:
    """A block is moved, and what it was moved to counts as one of another group."""
    move = BlockPool.move

    def forgetful(self: BlockPool, source: int, target: int) -> None:
        move(self, source, target)
        self.group[target] = 0

    with patch.object(BlockPool, "move", forgetful):
        yield


@contextmanager
def hit_without_its_window() -> Iterator[None]:
    """A prefix counts as found although the first block that its last token still sees is not."""
    needed = first_needed_place

    def later(pool: BlockPool, group: int, position: int) -> int:
        first = needed(pool, group, position)
        return first if pool.windows[group] is None else first + pool.groups

    with patch("engine.memory.places.first_needed_place", later):
        yield


@contextmanager
def chain_after_a_reset() -> Iterator[None]:
    """What is computed after a reset of the prefix cache is found as if what it continues could be."""
    reset = Scheduler.reset_prefix_cache

    def forgetful(self: Scheduler) -> int:
        chained = [(request, request.chained) for request in self.running]
        dropped = reset(self)
        for request, count in chained:
            request.chained = count
        return dropped

    with patch.object(Scheduler, "reset_prefix_cache", forgetful):
        yield
