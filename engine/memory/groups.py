"""KV groups: layers that share their blocks, and where the tokens of each lie in a request's block table.

Layers with the same window form a type. A model of one type has one group, and nothing here makes a difference to it.
Otherwise the types are cut into groups of equally many layers, as many as the rarest type has; the last group of a type
may have fewer, and is padded. So all groups draw blocks of one size from one pool, and each gives up what slides out of
its window whatever the others see. After vLLM's hybrid KV cache manager.

A request has one table for all of them: *place* ``i * groups + g`` names the block that holds the tokens ``i *
block_size …`` of group ``g``. With one group a place is a logical block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.memory.window import Windows, first_seen
from engine.requests.request import NO_BLOCK

if TYPE_CHECKING:
    from engine.memory.pool import BlockPool

ALIKE = 1.25
"""Where the commonest type has less than so many times the layers of the rarest, groups are as large as the commonest:
a little padding, and one group a type instead of two."""


@dataclass(frozen=True, slots=True)
class KVGroups:
    """``windows`` and ``layers``: by group, what its layers see (None: all) and which they are. A block holds the
    tokens of ``layer_slots`` layers; a group of fewer layers leaves the rest of its blocks unused."""

    windows: Windows
    layers: tuple[tuple[int, ...], ...]
    layer_slots: int

    @staticmethod
    def of(windows: Windows, layers: int) -> "KVGroups":
        """The groups of a model of so many layers with these windows by layer (empty: all see all)."""
        types: dict[int | None, list[int]] = {}
        for layer in range(layers):
            types.setdefault(windows[layer] if windows else None, []).append(layer)
        counts = [len(members) for members in types.values()]
        size = max(counts) if max(counts) < ALIKE * min(counts) else min(counts)
        by_group: list[tuple[int | None, tuple[int, ...]]] = []
        for window, members in types.items():
            parts = -(-len(members) // size)
            by_group += [(window, tuple(members[part::parts])) for part in range(parts)]
        return KVGroups(tuple(window for window, _ in by_group), tuple(members for _, members in by_group), size)

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def padding(self) -> int:
        """Layer slots, over a block of each group, that hold nothing."""
        return len(self) * self.layer_slots - sum(map(len, self.layers))

    @property
    def padding_share(self) -> float:
        """What of the memory of a token that all groups hold is padding."""
        return self.padding / (len(self) * self.layer_slots)

    @property
    def slots(self) -> dict[int, tuple[int, int]]:
        """By layer: its group, and its slot in that group's blocks."""
        return {layer: (group, slot) for group, of in enumerate(self.layers) for slot, layer in enumerate(of)}


def places(pool: "BlockPool", start: int, end: int) -> range:
    """The places of a table, of all groups, that hold positions ``start … end-1``."""
    size, groups = pool.block_size, pool.groups
    return range(start // size * groups, -(-end // size) * groups) if end > start else range(0)


def complete_places(pool: "BlockPool", tokens: int) -> int:
    """How many leading places of a table are full when the first ``tokens`` positions are written."""
    return tokens // pool.block_size * pool.groups


def tail_places(pool: "BlockPool", computed: int) -> range:
    """The places, one a group, of the block that position ``computed`` goes into, if others were written to it before;
    else none."""
    block, filled = divmod(computed, pool.block_size)
    return range(block * pool.groups, (block + 1) * pool.groups) if filled else range(0)


def first_needed_place(pool: "BlockPool", group: int, position: int) -> int:
    """The first place of ``group`` that a token at ``position`` reads or is written to."""
    return first_seen(pool.windows[group], position) // pool.block_size * pool.groups + group


def cached_table(pool: "BlockPool", complete: int, hash_at: Callable[[int], int]) -> list[int]:
    """The table of the longest prefix, of ``complete`` places at most, after which one could go on with what the pool
    finds: all blocks of groups that see all, and of the others those that the next token's window reaches into.
    `NO_BLOCK` where nothing is needed. Of the hashes, by place, no more are asked for than that takes.
    """
    groups, windows = pool.groups, pool.windows
    table, end = [NO_BLOCK] * complete, complete
    for place in range(complete):
        if windows[place % groups] is None:
            block = pool.lookup(hash_at(place))
            if block is None:
                end = place - place % groups
                break
            table[place] = block
    while (missing := _fill_windows(pool, table, end, hash_at)) is not None:
        # The window after any longer prefix than the one that ends there reaches to the missing block, too.
        end = missing - missing % groups
    return table[:end]


def _fill_windows(pool: "BlockPool", table: list[int], end: int, hash_at: Callable[[int], int]) -> int | None:
    """Name in ``table`` what is seen from place ``end`` on through windows. A place where that is missing, if one is."""
    for group, window in enumerate(pool.windows):
        if window is None:
            continue
        first = first_needed_place(pool, group, pool.tokens_in(end))
        for place in range(end - pool.groups + group, first - 1, -pool.groups):
            block = pool.lookup(hash_at(place))
            if block is None:
                return place
            table[place] = block
    return None
