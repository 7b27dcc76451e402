"""The block pool: who holds which block of KV memory, as arrays with one entry a block.

The life of a block: *free* (no content worth keeping) → `take` → *active* (one block table holds it; its owner writes
it) → `seal` once it is complete and computed (it has a hash, is never written again, and may be *shared* by several
tables) → `release` → *cached* if it has a hash (no owner, content valid, evictable; *pinned* instead, and not
evictable, while a pin holds it), else *free*. `take` takes a free
block, the one freed last; only when there is none, it evicts the cached block that the order of eviction
(`engine.policies.eviction`) puts first. `reclaim` makes a cached block a writable one that keeps its first tokens.
After vLLM v1's block pool.

Nothing here is O(blocks) but what is asked for keyframes, `reset_hashes` (O(hashed blocks)) and `set_eviction`.
"""

from collections.abc import Container
from math import inf, nan
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.memory.block_changes import BlockChanges
from engine.memory.freelist import FreeList
from engine.memory.prefix import NO_HASH, HashIndex
from engine.memory.window import Windows
from engine.policies.eviction import EVICTIONS, EvictionOrder
from engine.requests.retention import DEFAULT_PRIORITY
from kvtop.protocol import BLOCK_STATES

FREE, CACHED, ACTIVE, SHARED, PINNED = (
    BLOCK_STATES.index(name) for name in ("free", "cached", "active", "shared", "pinned")
)
TRANSFER = BLOCK_STATES.index("transfer")
NOBODY = -1


class PoolError(RuntimeError):
    """The pool was asked for something that would break its books. A bug in the caller, never a user's fault."""


class BlockPool:
    """``blocks`` blocks of ``block_size`` tokens in one tier, for ``groups`` KV groups (`engine.memory.groups`); ``windows``
    says, by group, how many tokens back its layers see (None: all).

    Arrays by block: ``refs`` (block tables that hold it), ``state`` (index in `BLOCK_STATES`), ``owner`` (num of the
    first of its owners in order of arrival, `NOBODY`), ``hash`` (`NO_HASH`: none), ``sealed`` (complete and never
    written again; stays set when the hash is dropped), ``fill`` (tokens written), ``last_use`` (monotonic seconds of
    the last take, write, share or release; NaN: never), ``tier``, ``group`` (whose tokens it holds). What eviction goes by: ``uses`` (block
    tables that held its present content, ever), ``sealed_at`` and ``idle_since`` (order of sealing and of the last
    release by all, numbers that rise; 0: never), ``parent`` (hash of the content before its own, `NO_HASH`: none),
    ``priority`` (retention, 0 to 100) and ``expires`` (monotonic seconds from which the priority is the default again;
    infinite: never). ``pins`` counts the pins that hold it. Copies to and from other tiers: ``copies`` (under way), ``incoming`` (the content is still to come), ``prefetched``
    (the tier from which the content was brought ahead of any use; 0: not, or used since).
    Read them; change them by the methods.
    """

    def __init__(self, blocks: int, block_size: int, *, tier: int = 0, windows: Windows = (None,)) -> None:
        if blocks < 1 or block_size < 1:
            raise ValueError(
                f"a pool of {blocks} blocks of {block_size} tokens is not possible: both must be 1 or more"
            )
        self.total = blocks
        self.block_size = block_size
        self.windows = windows
        self.groups = len(windows)
        self.slides = any(window is not None for window in windows)
        """Some group gives up what lies before its window."""
        self.refs: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.state: NDArray[np.uint8] = np.full(blocks, FREE, np.uint8)
        self.owner: NDArray[np.int32] = np.full(blocks, NOBODY, np.int32)
        self.hash: NDArray[np.uint64] = np.full(blocks, NO_HASH, np.uint64)
        self.sealed: NDArray[np.bool_] = np.zeros(blocks, np.bool_)
        self.fill: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.last_use: NDArray[np.float64] = np.full(blocks, np.nan, np.float64)
        self.tier: NDArray[np.uint8] = np.full(blocks, tier, np.uint8)
        self.group: NDArray[np.uint8] = np.zeros(blocks, np.uint8)
        self.uses: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.sealed_at: NDArray[np.int64] = np.zeros(blocks, np.int64)
        self.idle_since: NDArray[np.int64] = np.zeros(blocks, np.int64)
        self.parent: NDArray[np.uint64] = np.full(blocks, NO_HASH, np.uint64)
        self.priority: NDArray[np.uint8] = np.full(blocks, DEFAULT_PRIORITY, np.uint8)
        self.expires: NDArray[np.float64] = np.full(blocks, np.inf, np.float64)
        self.copies: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.incoming: NDArray[np.bool_] = np.zeros(blocks, np.bool_)
        self.prefetched: NDArray[np.uint8] = np.zeros(blocks, np.uint8)
        self.leaving = 0
        """Blocks nobody holds or pinned that can be taken as soon as the copies of them have ended."""
        self.pins: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.pinned_total = 0
        """Blocks that a pin holds, in use or not."""
        self.free_list = FreeList(blocks)
        """Free blocks, in the order in which they will be taken."""
        self.index = HashIndex()
        self.sharers: dict[int, set[int]] = {}
        """Nums of all owners, for blocks with more than one."""
        self.counts = [0] * len(BLOCK_STATES)
        """Blocks by state code."""
        self.counts[FREE] = blocks
        self.group_tokens = [0] * self.groups
        """By group, tokens in blocks that somebody holds; a shared block counts once."""
        self.evictions = 0
        """Cached blocks whose content was given up for new content, ever."""

        # One-element access through these reads and writes plain Python numbers, several times faster.
        self._refs = self.refs.data
        self._state = self.state.data
        self._owner = self.owner.data
        self._hash = self.hash.data
        self._sealed: memoryview[int] = self.sealed.data
        self._fill = self.fill.data
        self._last_use = cast("memoryview[float]", self.last_use.data)
        self._copies = self.copies.data
        self._incoming: memoryview[int] = self.incoming.data
        self._pins = self.pins.data
        self._uses = self.uses.data
        self._sealed_at = self.sealed_at.data
        self._idle_since = self.idle_since.data
        self._parent = self.parent.data
        self._priority = self.priority.data
        self._expires = cast("memoryview[float]", self.expires.data)
        self._group = self.group.data
        self._ticks = 0
        self.eviction = "lru"
        self.evictable: EvictionOrder = EVICTIONS[self.eviction].order(self)
        """Cached blocks, which are taken when no free one is left."""
        self._content: tuple[tuple[memoryview[Any], float], ...] = (
            (self._refs, 0),
            (self._owner, NOBODY),
            (self._hash, NO_HASH),
            (self._sealed, False),
            (self._fill, 0),
            (self._last_use, nan),
            (self._pins, 0),
            (self._uses, 0),
            (self._sealed_at, 0),
            (self._idle_since, 0),
            (self._parent, NO_HASH),
            (self._priority, DEFAULT_PRIORITY),
            (self._expires, inf),
            (self._group, 0),
            (self.prefetched.data, 0),
        )
        """What goes along when a block is moved, and what it leaves behind."""
        self.changes = BlockChanges(self)
        """What viewers have to be told."""
        self._mark = self.changes.mark
        self._rehashed = self.changes.rehashed

    # Gauges

    @property
    def available(self) -> int:
        """Blocks that `take` can give: free and cached ones."""
        return len(self.free_list) + len(self.evictable)

    @property
    def tokens_in_use(self) -> int:
        """Tokens whose KV somebody holds, in the group that holds the most of them."""
        return max(self.group_tokens)

    @property
    def free_blocks(self) -> int:
        return self.counts[FREE]

    @property
    def cached_blocks(self) -> int:
        return self.counts[CACHED]

    @property
    def pinned_blocks(self) -> int:
        """Those pinned that nobody holds; `pinned_total` counts those in use too."""
        return self.counts[PINNED]

    @property
    def active_blocks(self) -> int:
        return self.counts[ACTIVE]

    @property
    def shared_blocks(self) -> int:
        return self.counts[SHARED]

    @property
    def transfer_blocks(self) -> int:
        return self.counts[TRANSFER]

    def blocks_for(self, tokens: int) -> int:
        """How many blocks, of all groups together, hold ``tokens`` tokens."""
        return -(-tokens // self.block_size) * self.groups

    def tokens_in(self, blocks: int) -> int:
        """How many tokens fit into so many blocks, with a block of every group for each; inverse of `blocks_for`."""
        return blocks // self.groups * self.block_size

    # One block

    def refs_of(self, block: int) -> int:
        return self._refs[block]

    def is_read_by_others(self, block: int) -> bool:
        """``block``, which one request is about to write, is in other tables, or being copied to another tier."""
        return self._refs[block] > 1 or self._copies[block] > 0

    def hash_of(self, block: int) -> int:
        """Its hash, `NO_HASH` when it has none."""
        return self._hash[block]

    def parent_of(self, block: int) -> int:
        """The hash of the content that its own continues, `NO_HASH` for the first block of a sequence."""
        return self._parent[block]

    def lookup(self, hash_: int) -> int | None:
        """A block with this content, in use or cached; None when there is none."""
        return self.index.get(hash_)

    def take(self, owner: int, now: float, group: int = 0) -> int:
        """An empty block for ``owner``, writable, for tokens of ``group``. Raises `FreeListError` when none is `available`."""
        if self.counts[FREE]:
            block = self.free_list.pop_head()
        else:
            block = self.evictable.take(now)
            self._evict(block)
        self._refs[block] = 1
        self._uses[block] = 1
        self._priority[block] = DEFAULT_PRIORITY
        self._expires[block] = inf
        self._owner[block] = owner
        self._group[block] = group
        self._fill[block] = 0
        self._sealed[block] = False
        self._last_use[block] = now
        self._enter(block, ACTIVE)
        return block

    def reclaim(self, block: int, owner: int, fill: int, now: float) -> None:
        """The cached ``block`` is ``owner``'s own from now on, with its first ``fill`` tokens; the rest is to be written
        anew. It can be found no more, which counts as an eviction. Raises `PoolError` unless it is evictable."""
        if not self.is_evictable(block):
            raise PoolError(f"block {block} ({BLOCK_STATES[self._state[block]]}) cannot be taken over: it is not idle")
        if not 0 < fill <= self._fill[block]:
            raise PoolError(f"block {block} has {self._fill[block]} tokens, {fill} were to be taken over")
        self.evictable.remove(block)
        self._evict(block)
        self._refs[block] = 1
        self._uses[block] = 1
        self._priority[block] = DEFAULT_PRIORITY
        self._expires[block] = inf
        self._owner[block] = owner
        self._fill[block] = fill
        self._sealed[block] = False
        self._last_use[block] = now
        self.group_tokens[self._group[block]] += fill
        self._enter(block, ACTIVE)

    def share(self, block: int, owner: int, now: float, *, fork: bool = False) -> None:
        """One more table holds ``block``: a prefix hit, or a ``fork``, which may share a block in use before it is
        sealed, to be copied by whoever writes next. A cached block can no longer be evicted."""
        refs = self._refs[block]
        if not self._sealed[block] and not (fork and refs):
            raise PoolError(f"block {block} is still being written and cannot be shared")
        if refs == 0:
            if not self._pins[block]:
                if self._copies[block]:
                    self.leaving -= 1
                else:
                    self.evictable.remove(block)
            self._owner[block] = owner
            self.group_tokens[self._group[block]] += self._fill[block]
        else:
            owners = self.sharers.setdefault(block, {self._owner[block]})
            if owner in owners:
                raise PoolError(f"request {owner} holds block {block} already")
            owners.add(owner)
            self._owner[block] = min(self._owner[block], owner)
        self._refs[block] = refs + 1
        self._uses[block] += 1
        self._last_use[block] = now
        self._enter(block, ACTIVE if refs == 0 else SHARED)

    def release(self, block: int, owner: int, now: float) -> None:
        """``owner`` holds ``block`` no more. Raises `PoolError` if it did not hold it."""
        refs = self._refs[block]
        owners = self.sharers.get(block)
        if refs < 1 or (owner not in owners if owners else self._owner[block] != owner):
            raise PoolError(f"request {owner} released block {block}, which it does not hold")
        self._refs[block] = refs - 1
        self._last_use[block] = now
        if owners:
            owners.remove(owner)
            # The first to arrive has the smallest num.
            self._owner[block] = min(owners) if self._owner[block] == owner else self._owner[block]
            if len(owners) == 1:
                del self.sharers[block]
        if refs > 1:
            self._enter(block, SHARED if refs > 2 else ACTIVE)
            return
        self._owner[block] = NOBODY
        self.group_tokens[self._group[block]] -= self._fill[block]
        if self._copies[block]:
            self.leaving += not self._pins[block]
            self._enter(block, TRANSFER)
        else:
            self._rest(block)

    def write(self, block: int, fill: int, now: float) -> None:
        """``block`` now holds ``fill`` tokens. Raises `PoolError` unless one owner holds it and it is not sealed."""
        if self._refs[block] != 1 or self._sealed[block]:
            raise PoolError(
                f"block {block} was written while {self._refs[block]} tables hold it or after it was sealed"
            )
        if self._incoming[block]:
            raise PoolError(f"block {block} was written while content for it is on its way from another tier")
        if not self._fill[block] <= fill <= self.block_size:
            raise PoolError(f"block {block} went from {self._fill[block]} to {fill} tokens")
        self.group_tokens[self._group[block]] += fill - self._fill[block]
        self._fill[block] = fill
        self._last_use[block] = now
        self._mark(block)

    def seal(self, block: int, hash_: int, parent: int = NO_HASH) -> None:
        """``block`` is complete and computed: from now on it can be found by its hash, and is written no more.

        ``parent``: the hash of the block before it, `NO_HASH` for the first.
        """
        if self._fill[block] != self.block_size or self._sealed[block] or self._refs[block] != 1:
            raise PoolError(f"block {block} cannot be hashed: it is not a complete, writable block")
        self._name(block, hash_, parent)

    def forget(self, block: int) -> None:
        """Drop the hash of ``block``: its content can be found no more."""
        self.index.remove(self._hash[block], block)
        self._hash[block] = NO_HASH
        self.prefetched[block] = 0
        self._rehashed.add(block)
        self._mark(block)

    def reset_hashes(self) -> int:
        """Drop every hash. Cached blocks become free; blocks in use keep their KV and stay sealed. Returns how many.

        Raises `PoolError` while blocks are pinned.
        """
        if self.pinned_total:
            raise PoolError(f"the hashes of {self.pinned_total} pinned blocks cannot be dropped")
        blocks = [block for _, block in self.index.pairs()]
        # In the order of their release, as they would have been evicted by lru.
        for block in sorted(self.evictable, key=self._idle_since.__getitem__):
            self.evictable.remove(block)
            self.free_list.append(block)
        for block in blocks:
            self._hash[block] = NO_HASH
            self.prefetched[block] = 0
            self._rehashed.add(block)
            self._mark(block)
            if self._refs[block] == 0 and not self._copies[block]:
                self._clear(block)
        self.index.clear()
        return len(blocks)

    # Copies to and from other tiers

    def hold(self, block: int, *, incoming: bool = False) -> None:
        """A copy of ``block``, which somebody holds, begins. Until it ends the block is taken for nothing else, even
        when nobody holds it any more. ``incoming``: into the block, which is neither read nor written meanwhile."""
        if not self._refs[block]:
            raise PoolError(f"block {block}, which nobody holds, cannot be copied")
        self._copies[block] += 1
        if incoming:
            self._incoming[block] = True
            self._enter(block, TRANSFER)

    def hold_next_evicted(self, now: float) -> int:
        """A copy of the cached block that would be evicted next begins. Raises `FreeListError` when none is cached."""
        block = self.evictable.take(now)
        self._copies[block] += 1
        self.leaving += 1
        self._enter(block, TRANSFER)
        return block

    def expect(self, now: float, group: int, keep: Container[int]) -> int | None:
        """A block for tokens of ``group`` that nobody holds and a copy begins to bring: until that ends it can neither be
        found nor taken. None where none is free and one of ``keep`` would be evicted next."""
        if self.counts[FREE]:
            block = self.free_list.pop_head()
        elif (block := self.evictable.take(now)) in keep:
            self.stamp_idle(block)
            self.evictable.insert(block)
            return None
        else:
            self._evict(block)
        self._uses[block] = 1
        self._priority[block] = DEFAULT_PRIORITY
        self._expires[block] = inf
        self._group[block] = group
        self._fill[block] = 0
        self._sealed[block] = False
        self._last_use[block] = now
        self._copies[block] = 1
        self._incoming[block] = True
        self.leaving += 1
        self._enter(block, TRANSFER)
        return block

    def arrive(self, block: int, hash_: int, parent: int, tier: int) -> None:
        """The content that ``block``, from `expect`, waited for has come from ``tier``, complete: it is cached, and can be
        found."""
        if not self._incoming[block] or self._refs[block] or self._copies[block] != 1:
            raise PoolError(f"block {block} does not wait for content that nobody holds")
        self._fill[block] = self.block_size
        self._name(block, hash_, parent)
        self.prefetched[block] = tier
        self.unhold(block)

    def unhold(self, block: int, *, forget: bool = False) -> None:
        """A copy of ``block`` has ended. ``forget``: what it holds is safe elsewhere, so if nobody holds it, it is free."""
        if self._copies[block] < 1:
            raise PoolError(f"no copy of block {block} is under way")
        self._copies[block] -= 1
        if self._copies[block]:
            return
        arrived, self._incoming[block] = self._incoming[block], False
        if self._refs[block]:
            if arrived:
                self._enter(block, ACTIVE)
            return
        if not self._pins[block]:
            self.leaving -= 1
            if forget and self._hash[block] != NO_HASH:
                self.forget(block)
        self._rest(block)

    # Compaction

    def owners_of(self, block: int) -> set[int]:
        """Nums of all requests that hold it."""
        if not self._refs[block]:
            return set()
        return set(self.sharers.get(block) or {self._owner[block]})

    def move(self, source: int, target: int) -> None:
        """All that is known of ``source`` is said of ``target`` from now on, and ``source`` is free.

        The caller sees to it that tables and pins follow, and that the KV is copied before anybody reads or writes
        either block. Raises `PoolError` unless ``target`` is free and ``source`` has content and is not in transfer.
        """
        state = self._state[source]
        if self._state[target] != FREE or state in (FREE, TRANSFER) or self._copies[source]:
            raise PoolError(f"block {source} ({BLOCK_STATES[state]}) cannot be moved to block {target}")
        self.free_list.remove(target)
        for array, nothing in self._content:
            array[target], array[source] = array[source], nothing
        if source in self.sharers:
            self.sharers[target] = self.sharers.pop(source)
        if (hash_ := self._hash[target]) != NO_HASH:
            self.index.replace(hash_, source, target)
            self._rehashed.update((source, target))
        if state == CACHED:
            self.evictable.move(source, target)
        self._enter(target, state)
        # At the end of the list: others are taken before, so that what was freed stays so for long.
        self.free_list.append(source)
        self._enter(source, FREE)

    # Pins

    def pin(self, block: int) -> None:
        """One more pin holds ``block``, which has a hash: it is not evicted. Raises `PoolError` if it has none."""
        if self._hash[block] == NO_HASH:
            raise PoolError(f"block {block} cannot be pinned: it has no hash")
        self._pins[block] += 1
        if self._pins[block] > 1:
            return
        self.pinned_total += 1
        if self._refs[block]:
            return
        if self._copies[block]:
            self.leaving -= 1
        else:
            self.evictable.remove(block)
            self._enter(block, PINNED)

    def unpin(self, block: int) -> None:
        """One pin less holds ``block``. When it was the last and nobody holds the block, it is cached, released now."""
        if self._pins[block] < 1:
            raise PoolError(f"block {block} is not pinned")
        self._pins[block] -= 1
        if self._pins[block]:
            return
        self.pinned_total -= 1
        if self._refs[block]:
            return
        if self._copies[block]:
            self.leaving += 1
        else:
            self._rest(block)

    def is_evictable(self, block: int) -> bool:
        """Whether it is cached and counts as available."""
        return self._state[block] == CACHED

    # The order of eviction

    def retain(self, block: int, priority: int, expires: float) -> None:
        """Keep the content of ``block``, which somebody holds, with this priority until ``expires`` (infinite: always)."""
        if not self._refs[block]:
            raise PoolError(f"block {block} got a retention priority while nobody holds it")
        self._priority[block] = priority
        self._expires[block] = expires

    def priority_of(self, block: int, now: float) -> int:
        """Its retention priority at ``now``."""
        return self._priority[block] if self._expires[block] > now else DEFAULT_PRIORITY

    def set_eviction(self, name: str) -> None:
        """Evict by another policy from now on. O(cached blocks): the order is made anew from the arrays."""
        blocks = sorted(self.evictable, key=self._idle_since.__getitem__)
        self.eviction, self.evictable = name, EVICTIONS[name].order(self)
        for block in blocks:
            self.evictable.insert(block)

    def stamp_idle(self, block: int) -> None:
        """``block`` counts as released just now, after all others."""
        self._ticks += 1
        self._idle_since[block] = self._ticks

    def expire(self, block: int) -> None:
        """The retention priority of the cached ``block`` has run out: it has the default again."""
        self._priority[block] = DEFAULT_PRIORITY
        self._expires[block] = inf
        self.evictable.restamp(block)

    # Books

    def _evict(self, block: int) -> None:
        """``block``, which was the first in the order of eviction, loses its content."""
        self.forget(block)
        self.evictions += 1

    def _name(self, block: int, hash_: int, parent: int) -> None:
        """The complete ``block`` can be found by ``hash_`` from now on."""
        self._sealed[block] = True
        self._hash[block] = hash_
        self._parent[block] = parent
        self._ticks += 1
        self._sealed_at[block] = self._ticks
        self.index.add(hash_, block)
        self._rehashed.add(block)
        self._mark(block)

    def _enter(self, block: int, state: int) -> None:
        self.counts[self._state[block]] -= 1
        self.counts[state] += 1
        self._state[block] = state
        self._mark(block)

    def _rest(self, block: int) -> None:
        """Nobody holds ``block`` any more: it can be found and, unless it is pinned, evicted; or it is free."""
        if self._pins[block]:
            self._enter(block, PINNED)
        elif self._hash[block] != NO_HASH:
            self.stamp_idle(block)
            self.evictable.insert(block)
            self._enter(block, CACHED)
        else:
            self.free_list.prepend(block)
            self._clear(block)

    def _clear(self, block: int) -> None:
        """A block nobody holds and nobody can find: its content is gone."""
        self._fill[block] = 0
        self._sealed[block] = False
        self._enter(block, FREE)
