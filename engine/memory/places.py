"""Where the tokens of each KV group (`engine.memory.groups`) lie in a request's block table.

A request has one table for all of them: *place* ``i * groups + g`` names the block that holds the tokens ``i *
block_size …`` of group ``g``. With one group a place is a logical block.
"""

from collections.abc import Callable

from engine.memory.pool import BlockPool
from engine.memory.window import first_seen
from engine.requests.request import NULL_BLOCK


def places(pool: BlockPool, start: int, end: int) -> range:
    """The places of a table, of all groups, that hold positions ``start … end-1``."""
    size, groups = pool.block_size, pool.groups
    return range(start // size * groups, -(-end // size) * groups) if end > start else range(0)


def complete_places(pool: BlockPool, tokens: int) -> int:
    """How many leading places of a table are full when the first ``tokens`` positions are written."""
    return tokens // pool.block_size * pool.groups


def tail_places(pool: BlockPool, computed: int) -> range:
    """The places, one a group, of the block that position ``computed`` goes into, if others were written to it before;
    else none."""
    block, filled = divmod(computed, pool.block_size)
    return range(block * pool.groups, (block + 1) * pool.groups) if filled else range(0)


def first_needed_place(pool: BlockPool, group: int, position: int) -> int:
    """The first place of ``group`` that a token at ``position`` reads or is written to."""
    return first_seen(pool.windows[group], position) // pool.block_size * pool.groups + group


def cached_table(pool: BlockPool, complete: int, hash_at: Callable[[int], int]) -> list[int]:
    """The table of the longest prefix, of ``complete`` places at most, after which one could go on with what the pool
    finds: all blocks of groups that see all, and of the others those that the next token's window reaches into.
    `NULL_BLOCK` where nothing is needed. Of the hashes, by place, no more are asked for than that takes.
    """
    groups, windows = pool.groups, pool.windows
    table, end = [NULL_BLOCK] * complete, complete
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


def _fill_windows(pool: BlockPool, table: list[int], end: int, hash_at: Callable[[int], int]) -> int | None:
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
