"""Swapping: the KV of a preempted request goes out to one tier, is held there for it, and its slots end with it."""

from functools import partial

from engine.requests.request import Request
from engine.tiers.books import TierBooks
from engine.tiers.mover import Address, CopyResult
from engine.tiers.request_kv import Swapped
from engine.tiers.transfers import DEVICE, Transfers
from engine.words import counted


class Swaps:
    """``swapped``: by num of the request, those whose state is in a tier; one that is loading stays until that has ended."""

    def __init__(self, transfers: Transfers) -> None:
        self.swapped: dict[int, Swapped] = {}
        self._transfers = transfers
        self._pool = transfers.pool

    def room(self, request: Request, books: TierBooks) -> bool:
        """Whether the state of ``request`` can be copied out to that tier now."""
        blocks = self._pool.blocks_for(request.computed_tokens)
        return blocks <= books.available and blocks <= self._transfers.room

    def out(self, request: Request, books: TierBooks, now: float) -> None:
        """Copy all computed KV of a running request out. Its table may be released at once: the copies hold its blocks.

        The caller made sure of `room` and of at least one computed token.
        """
        blocks = request.block_table[: self._pool.blocks_for(request.computed_tokens)]
        hashes = [self._pool.hash_of(block) for block in blocks]
        slots = [books.take(now, fill=int(self._pool.fill[block]), owner=request.num) for block in blocks]
        state = Swapped(request.num, books, slots, request.computed_tokens, hashes, now, leaving=len(blocks))
        self.swapped[request.num] = state
        for place, (block, slot) in enumerate(zip(blocks, slots, strict=True)):
            self._pool.hold(block)
            target = Address(books.tier, slot, int(books.generation[slot]))
            ended = partial(self._left, state, place)
            self._transfers.begin(Address(DEVICE, block), target, ended, urgent=True)

    def refuse(self, request: Request, tier: str) -> None:
        """The tier (by name) had no room for it; its KV is given up."""
        blocks = self._pool.blocks_for(request.computed_tokens)
        books = self._transfers.named(tier)
        if books is not None:
            self._transfers.levels[books.tier].drops += blocks
        size = f"has {books.available} of {counted(books.slots, 'block')} to give" if books else "is not there"
        self._transfers.tell(
            "tier_drop",
            tier,
            f"{request.id} cannot be swapped out: it holds {counted(blocks, 'block')}, the {tier} tier {size}; it is recomputed",
            severity="warn",
            num=request.num,
            blocks=blocks,
        )

    def blocks(self, num: int, first: int) -> int:
        """Blocks of a swapped request's state from place ``first`` on; 0 where it has none."""
        state = self.swapped.get(num)
        return 0 if state is None else max(0, len(state.slots) - first)

    def drop(self, num: int, now: float) -> None:
        """The request has ended or needs its state no more: its slots become free."""
        state = self.swapped.pop(num, None)
        if state is not None:
            state.dead = True
            for slot in state.slots:
                state.books.give_up(slot, now)

    def _left(self, state: Swapped, place: int, result: CopyResult, now: float) -> None:
        self._pool.unhold(result.copy.source.slot)
        state.leaving -= 1
        if result.error is not None and (state.first_lost is None or place < state.first_lost):
            state.first_lost = place
        state.books.wrote(result.copy.target.slot, now, ok=True)
        if state.leaving or state.dead:
            return
        tier = state.books.name
        if state.first_lost is None:
            self._transfers.tell(
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
        self._transfers.tell(
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
        blocks -= blocks % self._pool.groups
        for slot in state.slots[blocks:]:
            state.books.give_up(slot, now)
        del state.slots[blocks:], state.hashes[blocks:]
        state.tokens = min(state.tokens, self._pool.tokens_in(blocks))
        if not blocks:
            del self.swapped[state.num]
