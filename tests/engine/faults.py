"""Faults planted into the pool, to see that the ledger or the machine that drives it finds them.

Each strikes every few calls, counted on the pool it strikes, so that a run can be repeated exactly.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from engine.memory.block_changes import BlockChanges
from engine.memory.blocks import Blocks
from engine.memory.copies import Copied, PendingCopies
from engine.memory.eviction import Ranked, Segmented
from engine.memory.partial import PARTS, Part, PartialIndex
from engine.memory.places import first_needed_place
from engine.memory.pool import BlockPool
from engine.requests.batch import BlockCopy
from engine.requests.beam import Beam
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling import beam_steps, forking
from engine.scheduling.progress import drop_unseen
from engine.scheduling.roster import Roster
from engine.scheduling.scheduler import Scheduler
from tests.engine.driving import BLOCK


def _strikes(pool: Blocks, every: int) -> bool:
    calls = getattr(pool, "fault_calls", 0) + 1
    pool.fault_calls = calls  # type: ignore[attr-defined]
    return calls % every == 0


@contextmanager
def leaked_reference() -> Iterator[None]:
    """Now and then a block is dropped from a table without being released."""
    release = BlockPool.release

    def leaky(self: BlockPool, block: int, owner: int, now: float) -> None:
        if not _strikes(self, 7):
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
        if others and _strikes(self, 2):
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
            if writable and _strikes(self, 5):
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
        if not _strikes(self, 5):
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
        if _strikes(self._blocks, 7):
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
        if pins and _strikes(self, 2):
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
        if was_cached and _strikes(self, 2):
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
        return set(sorted(owners)[1:]) if owners and _strikes(self, 2) else owners

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
        if not self._rank[block] or not _strikes(self._blocks, 3):
            enter(self, block)
            return
        self._idle[block] = self._blocks.idle_since[block]
        self._rank[block] -= 1
        self._push(block)

    with patch.object(Ranked, "_enter", outdated):
        yield


@contextmanager
def write_to_shared_block() -> Iterator[None]:
    """Samples of one prompt write into the block they share, without a copy, and the pool lets them."""
    write = BlockPool.write

    def careless(self: BlockPool, block: int, fill: int, now: float) -> None:
        refs = self._refs[block]
        self._refs[block] = min(refs, 1)
        write(self, block, fill, now)
        self._refs[block] = refs

    with (
        patch.object(BlockPool, "is_read_by_others", lambda self, block: False),
        patch.object(BlockPool, "write", careless),
    ):
        yield


@contextmanager
def forgotten_copy() -> Iterator[None]:
    """A request writes into a block of its own which never got the content of the shared one."""
    with patch.object(PendingCopies, "planned", lambda self: []):
        yield


@contextmanager
def copy_too_late() -> Iterator[None]:
    """Planned copies come to the runner one plan late, when their target has been written already."""
    planned = PendingCopies.planned

    def late(self: PendingCopies) -> list[Copied]:
        now = planned(self)
        before: list[Copied] = getattr(self, "held_back", [])
        vars(self)["held_back"] = now
        return before

    with patch.object(PendingCopies, "planned", late):
        yield


@contextmanager
def overlong_part() -> Iterator[None]:
    """Of a block that only begins like a request's own, one token too many is copied."""
    find = PartialIndex.find

    def greedy(self: PartialIndex, request: Request, *, idle: bool = False) -> Part | None:
        part = find(self, request, idle=idle)
        room = len(request.token_ids) - 1 - self._pool.tokens_in(len(request.block_table))
        if part is None or part.tokens >= min(self._pool.block_size, room):
            return part
        return Part(part.blocks, part.tokens + 1)

    with patch.object(PartialIndex, "find", greedy):
        yield


@contextmanager
def part_of_another_prefix() -> Iterator[None]:
    """A block is taken to continue a request's prefix because its tokens fit, whatever came before them."""
    with patch("engine.memory.partial._parent", lambda request, place, groups: place):
        yield


@contextmanager
def hash_left_behind() -> Iterator[None]:
    """A block that was taken over can still be found by the content whose end is about to be overwritten."""
    reclaim = BlockPool.reclaim

    def careless(self: BlockPool, block: int, owner: int, fill: int, now: float) -> None:
        with patch.object(BlockPool, "forget", lambda self, block: None):
            reclaim(self, block, owner, fill, now)

    with patch.object(BlockPool, "reclaim", careless):
        yield


@contextmanager
def taken_over_in_use() -> Iterator[None]:
    """A block is taken over while another request holds it, with references counted as they should."""
    reclaim, find = BlockPool.reclaim, PartialIndex.find

    def grabbed(self: BlockPool, block: int, owner: int, fill: int, now: float) -> None:
        if not self.refs_of(block):
            reclaim(self, block, owner, fill, now)
            return
        self.share(block, owner, now)
        self.forget(block)
        self.group_tokens[int(self.group[block])] += fill - int(self.fill[block])
        self.fill[block] = fill
        self.sealed[block] = False

    def any_block(self: PartialIndex, request: Request, *, idle: bool = False) -> Part | None:
        return find(self, request)

    with (
        patch.object(BlockPool, "reclaim", grabbed),
        patch.object(PartialIndex, "find", any_block),
        # Under either policy, so that it strikes often enough to be found.
        patch.dict(PARTS, {"copy": PartialIndex.to_take_over}),
    ):
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


@contextmanager
def beam_writes_a_shared_block() -> Iterator[None]:
    """A beam writes into the block it shares with its siblings, without a copy, and the pool lets it."""
    write, needs_copy = BlockPool.write, forking.must_copy

    def careless(self: BlockPool, block: int, fill: int, now: float) -> None:
        refs = self._refs[block]
        self._refs[block] = min(refs, 1)
        write(self, block, fill, now)
        self._refs[block] = refs

    def own_tail(request: Request, pool: BlockPool, now: float) -> list[BlockCopy]:
        return [] if request.beam is not None else forking.own_tail(request, pool, now)

    with (
        patch("engine.scheduling.growing.must_copy", lambda r, pool: 0 if r.beam is not None else needs_copy(r, pool)),
        patch("engine.scheduling.growing.own_tail", own_tail),
        patch.object(BlockPool, "write", careless),
    ):
        yield


@contextmanager
def beams_release_before_they_share() -> Iterator[None]:
    """A group that reorganises, its best beam in the first slot and so on, lets each give up its old blocks before
    others have taken theirs."""
    share, release = beam_steps._share_new, beam_steps._release_old

    def hasty(roster: Roster, member: Request, parent: beam_steps._Lineage, now: float) -> None:
        release(roster, member, parent, now)
        share(roster, member, parent, now)

    with (
        patch.object(beam_steps, "_place", lambda beam, children: dict(enumerate(children))),
        patch.object(beam_steps, "_share_new", lambda roster, member, parent, now: None),
        patch.object(beam_steps, "_release_old", hasty),
    ):
        yield


@contextmanager
def stale_tail_of_a_beam() -> Iterator[None]:
    """A beam takes over its parent's tokens and complete blocks, and keeps its own incomplete block."""
    give = beam_steps._Lineage.give

    def stale(self: beam_steps._Lineage, child: Request) -> None:
        old = list(child.block_table)
        give(self, child)
        if old and len(old) == len(child.block_table) and len(child.token_ids) % BLOCK:
            child.block_table[-1] = old[-1]

    with patch.object(beam_steps._Lineage, "give", stale):
        yield


@contextmanager
def beam_wakes_with_too_much() -> Iterator[None]:
    """A beam that wakes shares one complete block more than it has in common with its kin."""
    kin = Beam.kin

    def greedy(self: Beam[Request], slot: int, block_size: int) -> tuple[Request, int]:
        other, tokens = kin(self, slot, block_size)
        more = tokens + block_size
        return other, more if slot in self.order and more < len(self.members[slot].token_ids) else tokens

    with patch.object(Beam, "kin", greedy):
        yield


FAULTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    fault.__name__: fault
    for fault in (
        leaked_reference,
        double_free,
        aliased_block,
        dropped_too_early,
        dropped_without_a_release,
        stale_hash,
        missing_dirty_mark,
        stale_order_entry,
        outdated_rank,
        forgotten_table,
        moved_without_content,
        stale_place_after_a_move,
        forgotten_pin,
        evicted_pin,
        write_to_shared_block,
        forgotten_copy,
        copy_too_late,
        overlong_part,
        part_of_another_prefix,
        beam_writes_a_shared_block,
        beams_release_before_they_share,
        stale_tail_of_a_beam,
        beam_wakes_with_too_much,
        hash_left_behind,
        taken_over_in_use,
        groups_confused,
        group_left_behind,
        hit_without_its_window,
        chain_after_a_reset,
    )
}
