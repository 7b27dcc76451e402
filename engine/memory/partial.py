"""Partial reuse: a request goes on with the first tokens of a cached block whose rest differs from its own: with a
copy of them, or with the block itself where nobody uses it.

What hashes cannot tell is kept here: the token ids of complete blocks, by the hash of the content they continue and by
their first token. An entry names its block by hash alone and counts only while the pool finds that hash, so nothing is
to be done when a block is evicted or moved. After TensorRT-LLM's partial reuse, with and without a copy.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from engine.memory.pool import BlockPool
from engine.memory.prefix import of_group, seed
from engine.requests.request import Request

CANDIDATES = 64
"""Blocks compared at most, of those with the right prefix and first token; the latest completed ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """The first ``tokens`` tokens of ``blocks``, which hold the same tokens, one of each KV group."""

    blocks: tuple[int, ...]
    tokens: int
    in_place: bool = False
    """The blocks themselves are taken over; otherwise they are copied."""


class PartialIndex:
    """Token ids of blocks completed while the policy was on. Four bytes a token and some 200 bytes a block."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._blocks: dict[tuple[int, int], dict[int, array[int]]] = {}
        self._entries = 0

    def __len__(self) -> int:
        return self._entries

    def filled(self, request: Request, start: int, end: int) -> None:
        """Positions ``start … end-1`` of ``request`` were computed: remember the blocks that this completed."""
        size, groups = self._pool.block_size, self._pool.groups
        for i in range(start // size, min(end // size, request.chained)):
            tokens, hash_ = array("i", request.token_ids[i * size : (i + 1) * size]), request.hashes[i * groups]
            known = self._blocks.setdefault((_parent(request, i * groups, groups), tokens[0]), {})
            self._entries += hash_ not in known
            known[hash_] = tokens
        if self._entries > 2 * self._pool.total + CANDIDATES:
            self._sweep()

    def find(self, request: Request, *, idle: bool = False) -> Part | None:
        """The longest part that continues the blocks of ``request``, all of which are complete. ``idle``: of blocks that
        nobody uses.

        Its last token is never part of it: computing it yields the next one.
        """
        pool, place = self._pool, len(request.block_table)
        start = pool.tokens_in(place)
        wanted = request.token_ids[start : min(start + pool.block_size, len(request.token_ids) - 1)]
        if not wanted:
            return None
        best: Part | None = None
        known = self._blocks.get((_parent(request, place, pool.groups), wanted[0]), {})
        for hash_ in islice(reversed(known), CANDIDATES):
            common = _common(known[hash_], wanted)
            if (best is None or common > best.tokens) and (blocks := self._find(hash_, idle=idle)) is not None:
                best = Part(blocks, common)
        return best

    def to_copy(self, request: Request, tiers_below: bool) -> Part | None:
        """What ``request``, just admitted with its prefix hits, can go on with a copy of."""
        pool, part = self._pool, self.find(request)
        if part is None:
            return None
        idle = sum(pool.refs_of(block) == 0 for block in part.blocks)
        # While they are held, so that they are not taken for their own copies, idle blocks are not available. Copies
        # from a lower tier begin at once, before the batch's own: an idle block could be overwritten before it is read.
        if idle and (pool.available < idle + pool.groups or tiers_below):
            return None
        return part

    def to_take_over(self, request: Request, tiers_below: bool) -> Part | None:
        """What ``request``, just admitted with its prefix hits, can go on in, because nobody uses it."""
        part = self.find(request, idle=True)
        return None if part is None else replace(part, in_place=True)

    def _find(self, hash_: int, *, idle: bool) -> tuple[int, ...] | None:
        """The blocks of all groups with the content of this hash, if all are there and can be read; or taken over."""
        pool, blocks = self._pool, []
        for group in range(pool.groups):
            content = of_group(hash_, group)
            if idle:
                block = next((b for b in pool.index.blocks(content) if pool.is_evictable(b)), None)
            else:
                block = pool.lookup(content)
            if block is None or pool.incoming[block]:
                return None
            blocks.append(block)
        return tuple(blocks)

    def clear(self) -> None:
        self._blocks.clear()
        self._entries = 0

    def _sweep(self) -> None:
        """Forget what the pool forgot. As often as it has grown by the pool's size: cheap, seen over all entries."""
        self._blocks = {
            key: kept
            for key, known in self._blocks.items()
            if (kept := {h: tokens for h, tokens in known.items() if self._pool.lookup(h) is not None})
        }
        self._entries = sum(map(len, self._blocks.values()))


def _parent(request: Request, place: int, groups: int) -> int:
    """The hash of the content before the logical block whose first place is ``place``."""
    return request.hashes[place - groups] if place else seed(request.cache_salt)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens the two begin with in common."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


PARTS: dict[str, Callable[[PartialIndex, Request, bool], Part | None]] = {
    "copy": PartialIndex.to_copy,
    "exclusive": PartialIndex.to_take_over,
}
"""What each value of the axis but off finds for a request that starts."""
