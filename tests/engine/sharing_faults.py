"""Faults planted where requests share blocks: samples of one prompt, beams, and prompts that begin alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from engine.memory.copies import Copied, PendingCopies
from engine.memory.partial import PARTS, Part, PartialIndex
from engine.memory.pool import BlockPool
from engine.requests.batch import BlockCopy
from engine.requests.beam import Beam
from engine.requests.request import Request
from engine.scheduling import beam_steps, forking
from engine.scheduling.roster import Roster
from tests.engine.driving import BLOCK


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
