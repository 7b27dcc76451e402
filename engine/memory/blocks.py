"""What is known of each block of a pool: arrays with one entry a block, and how many are in which state."""

from math import inf, nan
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.memory.block_changes import BlockChanges
from engine.memory.prefix import NO_HASH
from engine.memory.window import Windows
from engine.requests.retention import DEFAULT_PRIORITY
from kvtop.protocol import BLOCK_STATES

FREE, CACHED, ACTIVE, SHARED, PINNED = (
    BLOCK_STATES.index(name) for name in ("free", "cached", "active", "shared", "pinned")
)
TRANSFER = BLOCK_STATES.index("transfer")
NOBODY = -1


class Blocks:
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
        self.pins: NDArray[np.int32] = np.zeros(blocks, np.int32)
        self.pinned_total = 0
        """Blocks that a pin holds, in use or not."""
        self.counts = [0] * len(BLOCK_STATES)
        """Blocks by state code."""
        self.counts[FREE] = blocks
        self.changes = BlockChanges(
            (self.state, self.owner, self.refs, self.fill, self.tier, self.group), self.hash, self.last_use
        )
        """What viewers have to be told."""
        self._mark = self.changes.mark
        self._rehashed = self.changes.rehashed
        self._ticks = 0

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

    # Gauges

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

    def is_evictable(self, block: int) -> bool:
        """Whether it is cached and counts as available."""
        return self._state[block] == CACHED

    def hash_of(self, block: int) -> int:
        """Its hash, `NO_HASH` when it has none."""
        return self._hash[block]

    def parent_of(self, block: int) -> int:
        """The hash of the content that its own continues, `NO_HASH` for the first block of a sequence."""
        return self._parent[block]

    def priority_of(self, block: int, now: float) -> int:
        """Its retention priority at ``now``."""
        return self._priority[block] if self._expires[block] > now else DEFAULT_PRIORITY

    def reset_priority(self, block: int) -> None:
        """The retention priority of ``block`` is the default again."""
        self._priority[block] = DEFAULT_PRIORITY
        self._expires[block] = inf

    def stamp_idle(self, block: int) -> None:
        """``block`` counts as released just now, after all others."""
        self._ticks += 1
        self._idle_since[block] = self._ticks

    def _enter(self, block: int, state: int) -> None:
        self.counts[self._state[block]] -= 1
        self.counts[state] += 1
        self._state[block] = state
        self._mark(block)
