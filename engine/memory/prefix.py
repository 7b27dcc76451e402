"""Prefix cache keys: a chained hash for each complete block, and the index from hash to blocks.

A block's hash is H(hash of the block before it, its tokens); the chain starts from a seed made of the request's cache
salt. Equal hashes therefore mean equal salt, equal tokens and equal position, hence equal KV. H is BLAKE2b cut to 64
bits: among a million blocks the odds of any accidental collision are about 3 in 10^8. Requests of tenants who do not
trust each other must carry different salts.
"""

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from engine.requests.request import Request

NO_HASH = 0
"""Stands for "this block has no hash"; no chain ever yields it."""

_GROUP_STEP, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
"""Odd, so that all groups' hashes of one block differ."""


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") or 1


@lru_cache(maxsize=4096)
def seed(salt: str) -> int:
    """Where the chain of every request with this cache salt begins."""
    return _digest(b"kvtop prefix chain\0" + salt.encode("utf-8", "surrogatepass"))


def chain(parent: int, tokens: Sequence[int]) -> int:
    """The hash (64 bits, never 0) of a complete block of token ids (0 … 2^31-1) that follows ``parent``."""
    return _digest(parent.to_bytes(8, "big") + array("i", tokens).tobytes())


def of_group(hash_: int, group: int) -> int:
    """What the block of ``group`` with the same tokens is found by; ``hash_`` itself for the first group."""
    return (hash_ ^ (group * _GROUP_STEP & _MASK)) or 1 if group else hash_


def extend_hashes(request: Request, places: int, block_size: int, groups: int = 1) -> list[int]:
    """The request's own list of hashes, made long enough for its first ``places`` complete places.

    Its tokens only ever grow at the end, so hashes once known stay right, preempted or not.
    """
    hashes = request.hashes
    for start in range(len(hashes) // groups * block_size, places // groups * block_size, block_size):
        parent = hashes[-groups] if hashes else seed(request.cache_salt)
        hash_ = chain(parent, request.token_ids[start : start + block_size])
        hashes += [of_group(hash_, group) for group in range(groups)] if groups > 1 else [hash_]
    return hashes


def hashes_of(token_ids: Sequence[int], salt: str, block_size: int, groups: int = 1) -> list[int]:
    """The hashes, by place, of all complete blocks of a sequence with this cache salt."""
    hashes, parent = [], seed(salt)
    for i in range(len(token_ids) // block_size):
        parent = chain(parent, token_ids[i * block_size : (i + 1) * block_size])
        hashes += [of_group(parent, group) for group in range(groups)]
    return hashes


class HashIndex:
    """From a hash to the blocks with that content. Duplicates are allowed: two requests may compute the same prefix
    at the same time, and neither block is worth moving."""

    def __init__(self) -> None:
        # Nearly every hash has one block: a bare int there, a dict (as an ordered set) only for duplicates.
        self._blocks: dict[int, int | dict[int, None]] = {}
        self._pairs = 0

    def __len__(self) -> int:
        """How many blocks are known, duplicates included."""
        return self._pairs

    def get(self, hash_: int) -> int | None:
        """A block with this content, of several the one known longest; None when there is none."""
        found = self._blocks.get(hash_)
        if found is None or isinstance(found, int):
            return found
        return next(iter(found))

    def blocks(self, hash_: int) -> list[int]:
        """All blocks with this content."""
        found = self._blocks.get(hash_)
        if found is None:
            return []
        return [found] if isinstance(found, int) else list(found)

    def holds(self, hash_: int, block: int) -> bool:
        """``block`` is found by this hash, it alone or among others."""
        found = self._blocks.get(hash_)
        return found == block if isinstance(found, int) else found is not None and block in found

    def replace(self, hash_: int, old: int, new: int) -> None:
        """The content of ``old`` is in ``new`` from now on. Raises KeyError when the index does not hold ``old``."""
        found = self._blocks[hash_]
        if isinstance(found, int):
            if found != old:
                raise KeyError(old)
            self._blocks[hash_] = new
        else:
            if old not in found:
                raise KeyError(old)
            self._blocks[hash_] = {new if block == old else block: None for block in found}

    def add(self, hash_: int, block: int) -> None:
        found = self._blocks.get(hash_)
        if found is None:
            self._blocks[hash_] = block
        elif isinstance(found, int):
            self._blocks[hash_] = {found: None, block: None}
        else:
            found[block] = None
        self._pairs += 1

    def remove(self, hash_: int, block: int) -> None:
        """Raises KeyError when the index does not hold this pair."""
        found = self._blocks[hash_]
        if isinstance(found, int):
            if found != block:
                raise KeyError(block)
            del self._blocks[hash_]
        else:
            del found[block]
            if len(found) == 1:
                self._blocks[hash_] = next(iter(found))
        self._pairs -= 1

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every (hash, block)."""
        for hash_, found in self._blocks.items():
            if isinstance(found, int):
                yield hash_, found
            else:
                for block in found:
                    yield hash_, block

    def clear(self) -> None:
        self._blocks.clear()
        self._pairs = 0
