"""The tiers' part of the ledger: slots, copies under way and swapped requests, counted anew and compared."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from engine.memory.prefix import NO_HASH
from engine.requests.request import Request, RequestState
from engine.tiers.books import CACHED, FREE, HELD, NOBODY, TRANSFER, TierBooks
from engine.tiers.tiers import Tiers
from engine.tiers.transfers import DEVICE


def tier_violations(tiers: Tiers, requests: Mapping[int, Request]) -> list[str]:
    """What is wrong, a sentence each; ``requests``: the live ones by num."""
    found: list[str] = []
    for books in tiers.books:
        found += _slots(books)
        found += _copies(tiers, books)
    found += _device(tiers)
    found += _held(tiers, requests)
    found += _loads(tiers, requests)
    return found


def _slots(books: TierBooks) -> list[str]:
    """Every slot is in one state, counted right; free and idle cached ones, and no others, can be taken."""
    found = []
    name = books.name
    for state, count in books.counts.items():
        actual = int(np.count_nonzero(books.state == state))
        if actual != count:
            found.append(f"{actual} {name} slots are in state {state}, the books count {count}")
    if sum(books.counts.values()) != books.slots:
        found.append(f"free + cached + held + transfer is {sum(books.counts.values())}, {name} has {books.slots} slots")
    listed = np.fromiter(books.unused, dtype=np.int64)
    times = np.bincount(listed, minlength=books.slots)
    expected = ((books.state == FREE) | (books.state == CACHED) & (books.readers == 0)).astype(np.int64)
    for slot in np.flatnonzero(times != expected).tolist():
        found.append(f"{name} slot {slot} is {times[slot]} times among those that can be taken, not {expected[slot]}")
    for hash_, slot in books.index.items():
        if int(books.hash[slot]) != hash_ or books.state[slot] not in (CACHED, TRANSFER):
            found.append(f"{name} finds slot {slot} by {hash_:016x}, which it does not hold")
    hashed = int(np.count_nonzero(books.hash != NO_HASH))
    if hashed != len(books.index):
        found.append(f"{hashed} {name} slots have a hash, {len(books.index)} can be found")
    for slot in np.flatnonzero((books.state == FREE) & ((books.hash != NO_HASH) | (books.owner != NOBODY))).tolist():
        found.append(f"{name} slot {slot} is free and has a hash or an owner")
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


def _held(tiers: Tiers, requests: Mapping[int, Request]) -> list[str]:
    """Every held slot belongs to one live request that is swapped out or on its way back, and is where it says."""
    found = []
    owned: Counter[tuple[int, int]] = Counter()
    for num, state in tiers.swapped.items():
        request = requests.get(num)
        if request is None or request.state not in (RequestState.PREEMPTED, RequestState.LOADING):
            found.append(f"state of request {num} is kept, which is {'gone' if request is None else request.state}")
        if len(state.slots) != tiers.pool.blocks_for(state.tokens) or len(state.hashes) != len(state.slots):
            found.append(f"{state.tokens} tokens of request {num} are kept in {len(state.slots)} slots")
        for slot in state.slots:
            owned[state.books.tier, slot] += 1
            if state.books.owner[slot] != num or state.books.state[slot] not in (HELD, TRANSFER):
                found.append(f"{state.books.name} slot {slot} of request {num} is not held for it")
    for books in tiers.books:
        for slot in np.flatnonzero(books.owner != NOBODY).tolist():
            if owned[books.tier, slot] != 1:
                found.append(f"{books.name} slot {slot} is held for {owned[books.tier, slot]} swapped requests")
        for slot in np.flatnonzero((books.state == HELD) & (books.owner == NOBODY) & (books.readers == 0)).tolist():
            found.append(f"{books.name} slot {slot} is held for nobody")
    return found


def _loads(tiers: Tiers, requests: Mapping[int, Request]) -> list[str]:
    """Requests that load are exactly those with copies to wait for."""
    loading = sorted(num for num, request in requests.items() if request.state is RequestState.LOADING)
    if loading != sorted(tiers.loading):
        return [f"requests {loading} are loading, copies are under way for {sorted(tiers.loading)}"]
    return []
