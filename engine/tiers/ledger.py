"""The tiers' part of the ledger: slots, copies under way and swapped requests, counted anew and compared."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from engine.memory.prefix import NO_HASH
from engine.requests.request import Request, RequestState
from engine.tiers.books import CACHED, FREE, HELD, NOBODY, TRANSFER, TierBooks
from engine.tiers.request_kv import Swapped
from engine.tiers.tiers import Tiers
from engine.tiers.transfers import DEVICE

PIECE = 2_048
"""Slots looked at in one piece: about half a millisecond."""


def tier_violations(tiers: Tiers, requests: Mapping[int, Request]) -> list[str]:
    """What is wrong, a sentence each; ``requests``: the live ones by num."""
    found = [wrong for piece in tier_pieces(tiers, requests) for wrong in piece]
    for books in tiers.books:
        if (walked := sum(1 for _ in books.unused)) != len(books.unused):
            found.append(f"{books.name} counts {len(books.unused)} slots that can be taken, a walk finds {walked}")
    return found


def tier_pieces(tiers: Tiers, requests: Mapping[int, Request]) -> Iterator[list[str]]:
    """The same in pieces, each true by itself: between two of them anything may change."""
    for books in tiers.books:
        for first in range(0, books.slots, PIECE):
            yield _slots(books, first, min(first + PIECE, books.slots))
        yield _sums(books)
        yield _copies(tiers, books)
    yield _device(tiers)
    for num in list(tiers.swapped):
        if (state := tiers.swapped.get(num)) is not None:
            yield _kept(tiers, state, requests.get(num))
    yield _owned(tiers)
    yield _loads(tiers, requests)


def _slots(books: TierBooks, first: int, end: int) -> list[str]:
    """Free and idle cached slots, and no others, can be taken; content is found by its hash where it lies."""
    name, piece = books.name, slice(first, end)
    state, hashes, owner, unread = books.state[piece], books.hash[piece], books.owner[piece], books.readers[piece] == 0
    free, hashed, owned = state == FREE, hashes != NO_HASH, owner != NOBODY
    rules = {
        "is wrongly among those that can be taken, or lost": books.unused.members(first, end)
        != (free | (state == CACHED) & unread),
        "is free and has a hash or an owner": free & (hashed | owned),
        "is held for nobody": (state == HELD) & ~owned & unread,
        "has a hash and no content for others": hashed & (state != CACHED) & (state != TRANSFER),
    }
    found = [
        f"{name} slot {first + place} {what}"
        for what, wrong in rules.items()
        for place in np.flatnonzero(wrong).tolist()
    ]
    found += [
        f"{name} slot {slot} is out of place among those that can be taken"
        for slot in books.unused.unlinked(first, end)
    ]
    for place in np.flatnonzero(hashed).tolist():
        if books.index.get(int(hashes[place])) != first + place:
            found.append(
                f"{name} slot {first + place} has the hash {int(hashes[place]):016x}, by which it is not found"
            )
    return found


def _sums(books: TierBooks) -> list[str]:
    """Every slot is in one state, and all is counted right."""
    found = []
    name = books.name
    for state, count in books.counts.items():
        actual = int(np.count_nonzero(books.state == state))
        if actual != count:
            found.append(f"{actual} {name} slots are in state {state}, the books count {count}")
    if sum(books.counts.values()) != books.slots:
        found.append(f"free + cached + held + transfer is {sum(books.counts.values())}, {name} has {books.slots} slots")
    takeable = int(np.count_nonzero((books.state == FREE) | (books.state == CACHED) & (books.readers == 0)))
    if len(books.unused) != takeable:
        found.append(f"{takeable} {name} slots can be taken, the books count {len(books.unused)}")
    hashed = int(np.count_nonzero(books.hash != NO_HASH))
    if hashed != len(books.index):
        found.append(f"{hashed} {name} slots have a hash, {len(books.index)} can be found")
    return found


def _copies(tiers: Tiers, books: TierBooks) -> list[str]:
    """Slots are in transfer, or read, exactly where copies under way say so."""
    found = []
    written, read = np.zeros(books.slots, np.int64), np.zeros(books.slots, np.int64)
    for copy in tiers.flights:
        if copy.target.tier == books.tier:
            written[copy.target.slot] += 1
        if copy.source.tier == books.tier:
            read[copy.source.slot] += 1
    for slot in np.flatnonzero(written != (books.state == TRANSFER)).tolist():
        found.append(f"{books.name} slot {slot} has {written[slot]} copies into it and state {books.state[slot]}")
    for slot in np.flatnonzero(read != books.readers).tolist():
        found.append(
            f"{books.name} slot {slot} has {read[slot]} copies out of it, the books count {books.readers[slot]}"
        )
    for copy in tiers.flights:
        for place in (copy.source, copy.target):
            if place.tier == books.tier and books.generation[place.slot] != place.generation:
                found.append(f"{books.name} slot {place.slot} went into new hands while it was copied")
    return found


def _device(tiers: Tiers) -> list[str]:
    """No device block is in transfer without a copy, and none is copied without being held for that."""
    found = []
    touched = Counter(copy.source.slot for copy in tiers.flights if copy.source.tier == DEVICE)
    arriving = Counter(copy.target.slot for copy in tiers.flights if copy.target.tier == DEVICE)
    copies = np.zeros(tiers.pool.total, np.int64)
    for block, count in (touched + arriving).items():
        copies[block] = count
    for block in np.flatnonzero(copies != tiers.pool.copies).tolist():
        found.append(f"block {block} has {copies[block]} copies under way, the pool counts {tiers.pool.copies[block]}")
    incoming = np.flatnonzero(tiers.pool.incoming).tolist()
    if sorted(arriving) != incoming:
        found.append(f"copies into blocks {sorted(arriving)} are under way, the pool expects {incoming}")
    for block in np.flatnonzero((tiers.pool.prefetched > 0) & (tiers.pool.hash == NO_HASH)).tolist():
        found.append(f"block {block} counts as brought ahead, but it can be found by nobody")
    for block in np.flatnonzero(tiers.pool.incoming & (tiers.pool.hash != NO_HASH)).tolist():
        found.append(f"block {block} can be found, but its content is still to come")
    waiting = int(np.count_nonzero(tiers.pool.incoming & (tiers.pool.refs == 0)))
    if waiting < len(tiers.prefetches.under_way):
        found.append(f"{len(tiers.prefetches.under_way)} blocks are brought ahead, {waiting} wait for content")
    return found


def _kept(tiers: Tiers, state: Swapped, request: Request | None) -> list[str]:
    """The state belongs to one live request that is swapped out or on its way back, and is where it says."""
    found, books, num = [], state.books, state.num
    if request is None or request.state not in (RequestState.PREEMPTED, RequestState.LOADING):
        found.append(f"state of request {num} is kept, which is {'gone' if request is None else request.state}")
    if len(state.slots) != tiers.pool.blocks_for(state.tokens) or len(state.hashes) != len(state.slots):
        found.append(f"{state.tokens} tokens of request {num} are kept in {len(state.slots)} slots")
    if len(set(state.slots)) != len(state.slots):
        found.append(f"a {books.name} slot keeps two blocks of request {num}")
    slots = np.array(state.slots, dtype=np.intp)
    right = (books.owner[slots] == num) & ((books.state[slots] == HELD) | (books.state[slots] == TRANSFER))
    return found + [f"{books.name} slot {slot} of request {num} is not held for it" for slot in slots[~right].tolist()]


def _owned(tiers: Tiers) -> list[str]:
    """No slot is held for a request that does not know of it."""
    found = []
    for books in tiers.books:
        kept = sum(len(state.slots) for state in tiers.swapped.values() if state.books is books)
        if (owned := int(np.count_nonzero(books.owner != NOBODY))) != kept:
            found.append(f"{owned} {books.name} slots are held for swapped requests, whose states are in {kept}")
    return found


def _loads(tiers: Tiers, requests: Mapping[int, Request]) -> list[str]:
    """Requests that load are exactly those with copies to wait for."""
    loading = sorted(num for num, request in requests.items() if request.state is RequestState.LOADING)
    if loading != sorted(tiers.loading):
        return [f"requests {loading} are loading, copies are under way for {sorted(tiers.loading)}"]
    return []
