"""The life of a block: *free* (no content worth keeping) → `take` → *active* (one block table holds it; its owner writes
it) → `seal` once it is complete and computed (it has a hash, is never written again, and may be *shared* by several
tables) → `release` → *cached* if it has a hash (no owner, content valid, evictable; *pinned* instead, and not
evictable, while a pin holds it), else *free*. `take` gives a free block; only when there is none, it evicts the cached
block that the order of eviction (`engine.memory.eviction`) puts first. `reclaim` makes a cached block a writable one that
keeps its first tokens. After vLLM v1's block pool.
"""

from engine.memory.allocator import Allocator, Paged, Strategy
from engine.memory.blocks import ACTIVE, CACHED, FREE, NOBODY, PINNED, SHARED, TRANSFER, Blocks
from engine.memory.eviction import EvictionOrder
from engine.memory.free_list import FreeList
from engine.memory.prefix import NO_HASH, HashIndex
from engine.memory.window import Windows
from kvtop.protocol import BLOCK_STATES


class PoolError(RuntimeError):
    """The pool was asked for something that would break its books. A bug in the caller, never a user's fault."""


class HeldBlocks(Blocks):
    """Blocks that block tables hold, write and find again. Every method is O(1), or O(log blocks) for the eviction.

    Methods raise `PoolError` for what the block's state does not allow.
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        *,
        tier: int = 0,
        windows: Windows = (None,),
        strategy: Strategy | None = None,
    ) -> None:
        """``strategy``: where in the pool a table's blocks go; None: anywhere."""
        super().__init__(blocks, block_size, tier=tier, windows=windows)
        self.allocator = Allocator(self, strategy or Paged())
        self.index = HashIndex()
        self.sharers: dict[int, set[int]] = {}
        """Nums of all owners, for blocks with more than one."""
        self.group_tokens = [0] * self.groups
        """By group, tokens in blocks that somebody holds; a shared block counts once."""
        self.evictions = 0
        """Cached blocks whose content was given up for new content, ever."""
        self.leaving = 0
        """Blocks nobody holds or pinned that can be taken as soon as the copies of them have ended."""

    @property
    def free_list(self) -> FreeList:
        """Free blocks, the one freed last first."""
        return self.allocator.free_list

    @property
    def evictable(self) -> EvictionOrder:
        """Cached blocks, which are taken when no free one is left."""
        return self.allocator.evictable

    @property
    def eviction(self) -> str:
        """The policy in force."""
        return self.allocator.eviction

    @property
    def available(self) -> int:
        """Blocks that `take` can give: free and cached ones."""
        allocator = self.allocator
        return len(allocator.free_list) + len(allocator.evictable)

    @property
    def room(self) -> int:
        """Blocks that one table which has none can get now; `available` where it does not matter which."""
        return self.allocator.strategy.room(self.free_list, self.evictable)

    @property
    def tokens_in_use(self) -> int:
        """Tokens whose KV somebody holds, in the group that holds the most of them."""
        return max(self.group_tokens)

    def lookup(self, hash_: int) -> int | None:
        """A block with this content, in use or cached; None when there is none."""
        return self.index.get(hash_)

    def take(self, owner: int, now: float, group: int = 0, *, after: int | None = None) -> int:
        """An empty block for ``owner``, writable, for tokens of ``group``; ``after`` (None: none) is the latest block that
        its table has of that group. Raises `FreeListError` when none is `available`."""
        block = self.allocator.take(now, after)
        if self._state[block] == CACHED:
            self._evict(block)
        self._refs[block] = 1
        self._uses[block] = 1
        self.reset_priority(block)
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
        self.reset_priority(block)
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

    def retain(self, block: int, priority: int, expires: float) -> None:
        """Keep the content of ``block``, which somebody holds, with this priority until ``expires`` (infinite: always)."""
        if not self._refs[block]:
            raise PoolError(f"block {block} got a retention priority while nobody holds it")
        self._priority[block] = priority
        self._expires[block] = expires

    def owners_of(self, block: int) -> set[int]:
        """Nums of all requests that hold it."""
        if not self._refs[block]:
            return set()
        return set(self.sharers.get(block) or {self._owner[block]})

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

    def _rest(self, block: int) -> None:
        """Nobody holds ``block`` any more: it can be found and, unless it is pinned, evicted; or it is free."""
        if self._pins[block]:
            self._enter(block, PINNED)
        elif self._hash[block] != NO_HASH:
            self.allocator.cache(block)
            self._enter(block, CACHED)
        else:
            self.free_list.prepend(block)
            self._clear(block)

    def _clear(self, block: int) -> None:
        """A block nobody holds and nobody can find: its content is gone."""
        self._fill[block] = 0
        self._sealed[block] = False
        self._enter(block, FREE)
